// The Tune page: sliders, ticks and charts around one model. Every question goes to one route, one at a time and the
// newest first; what is drawn is the last answer. Nothing here knows how a model is fitted.

const REST = 400 // milliseconds without a change after which what takes longer is asked for
const ADDRESS = 250 // and after which the address of the page follows
const RETRY = 2000 // before a server that did not answer is asked again
const NAMED = 8 // lines of the path that have a colour and a name
const ROWS = 25 // coefficients that are listed before somebody asks for all
const tunes = new WeakMap()

// ------------------------------------------------------------------ asking

class Asker {
  // One question in flight; a newer one takes the place of the one that waits.
  constructor(answered, failed) {
    Object.assign(this, { answered, failed, flying: null, next: null })
  }

  ask(url) {
    if (this.flying && !this.flying.patient) {
      this.next = url
      return
    }
    this.flying?.stop.abort() // it only waited for a curve that nobody looks at any more
    this.send(url)
  }

  async send(url) {
    const own = (this.flying = { stop: new AbortController(), patient: url.includes("wait=1") })
    this.next = null
    try {
      const answer = await ask(url, own.stop.signal)
      if (this.flying === own) this.answered(answer, this.next !== null)
    } catch (error) {
      if (this.flying === own) this.failed(error.message, error.mortal)
    }
    if (this.flying !== own) return
    this.flying = null
    if (this.next) this.send(this.next)
  }

  close() {
    this.flying?.stop.abort()
    this.flying = this.next = null
  }
}

async function ask(url, signal) {
  let response
  try {
    response = await fetch(new URL(url, document.baseURI), { signal })
  } catch {
    throw new Error("The dashboard does not answer. Check that it is still running; this is tried again by itself.")
  }
  const answer = await response.json().catch(() => ({ problem: "The dashboard did not understand. Reload the page." }))
  if (answer.problem) throw Object.assign(new Error(answer.problem), { mortal: true })
  return answer
}

function unpacked(text, width) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0))
  const flat = new Float32Array(bytes.buffer)
  return Array.from({ length: flat.length / width }, (_, i) => flat.subarray(i * width, (i + 1) * width))
}

// ------------------------------------------------------------------ small parts

const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`)
const shortened = (text, most = 22) => (text.length > most ? `${text.slice(0, most - 1)}…` : text)
let serial = 0

function card(title, hint = "") {
  const root = el("section", "tune-card")
  const header = el("header")
  const heading = el("h3", "", title)
  heading.id = `tune-h${++serial}`
  root.setAttribute("aria-labelledby", heading.id)
  const note = el("span", "tune-hint", hint)
  const tools = el("span", "tune-tools")
  header.append(heading, note, tools)
  root.append(header)
  return { root, note, tools }
}

function button(text, act, help = "") {
  const made = el("button", "tune-button", text)
  made.type = "button"
  made.onclick = act
  if (help) made.title = help
  return made
}

function labelled(text, control, help = "") {
  control.id = `tune-c${++serial}`
  const label = el("label", "tune-label", text)
  label.htmlFor = control.id
  if (help) label.title = help
  return label
}

function cells(row, tag, texts) {
  for (const text of texts) row.append(el(tag, "", text))
  return row
}

// ------------------------------------------------------------------ charts

class Figure {
  constructor(view, title, hint) {
    this.view = view
    const { root, note } = card(title, hint)
    Object.assign(this, { root, note })
    this.div = el("div", "tune-plot")
    this.div.setAttribute("role", "img")
    this.root.append(this.div)
    this.size = new ResizeObserver(() => {
      if (this.width && this.div.clientWidth && this.div.clientWidth !== this.width) this.draw(true)
    })
    this.size.observe(this.div)
  }

  layout(colors, x, y, more = {}) {
    const axis = { gridcolor: colors.border, linecolor: colors.border, zeroline: false, tickfont: { size: 11 }, exponentformat: "power" } // prettier-ignore
    this.width = this.div.clientWidth
    return {
      width: this.width, height: this.div.clientHeight, margin: { l: 58, r: 14, t: 10, b: 42 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { family: colors.font, size: 12, color: colors.text }, dragmode: false, hovermode: "closest",
      hoverlabel: { bgcolor: colors.background, bordercolor: colors.border, font: { size: 12, color: colors.text } },
      xaxis: { ...axis, type: "log", fixedrange: true, dtick: 1, title: { text: "alpha (a stronger penalty to the right)", standoff: 8, font: { size: 11 } }, ...x },
      yaxis: { ...axis, fixedrange: true, nticks: 6, ...y }, ...more,
      shapes: [{ type: "line", xref: "x", yref: "paper", y0: 0, y1: 1, x0: this.view.alpha, x1: this.view.alpha, line: { color: colors.text, width: 1.5, dash: "dot" } }],
    } // prettier-ignore
  }

  // Draw anew when the curve is another; else only move what shows the present alpha.
  async draw(anew) {
    const { view } = this
    this.root.hidden = !view.curve || view.curve.alphas.length < 2
    if (this.root.hidden || !view.point) return
    this.describe()
    const Plotly = await loadPlotly(view.settings.plotly)
    if (this.root.hidden || !this.div.clientWidth) return
    if (anew || this.drawn !== view.curve) {
      this.drawn = view.curve
      const first = !this.plotted
      this.plotted = true
      await Plotly.react(this.div, ...this.whole(theme(this.root)), { displayModeBar: false, doubleClick: false, showTips: false }) // prettier-ignore
      if (first) this.div.on("plotly_click", (e) => view.pick(e.points[0].x))
    } else await this.move(Plotly)
  }

  shifted() {
    return { "shapes[0].x0": this.view.alpha, "shapes[0].x1": this.view.alpha }
  }

  destroy() {
    this.size.disconnect()
    if (this.plotted) globalThis.Plotly?.purge(this.div)
  }
}

class ErrorCurve extends Figure {
  constructor(view) {
    super(view, "Cross-validated error", "mean over folds, and one standard error to each side")
  }

  whole(colors) {
    const { curve, point } = this.view
    const [green, orange, blue] = colors.colors
    const band = (sign) => curve.mean.map((m, i) => m + sign * curve.se[i])
    const mark = (i, name, color, symbol) => ({
      x: [curve.alphas[i]], y: [curve.mean[i]], type: "scatter", mode: "markers", name, marker: { color, symbol, size: 11, line: { color: colors.background, width: 1.5 } },
      hovertemplate: `${name}<br>alpha %{x:.4g}<br>error %{y:.5g}<extra></extra>`,
    }) // prettier-ignore
    const traces = [
      { x: [...curve.alphas, ...curve.alphas.toReversed()], y: [...band(1), ...band(-1).toReversed()], type: "scatter", mode: "lines", fill: "toself", line: { width: 0 }, fillcolor: `${green.trim()}2e`, hoverinfo: "skip" },
      { x: curve.alphas, y: curve.mean, type: "scatter", mode: "lines", line: { color: green, width: 2 }, customdata: curve.se,
        hovertemplate: "alpha %{x:.4g}<br>error %{y:.5g} ± %{customdata:.2g}<extra></extra>" },
      mark(curve.best, "Best", orange, "circle"),
      mark(curve.one_se, "1-SE", blue, "diamond"),
      { x: [point.alpha], y: [point.cv.mse], type: "scatter", mode: "markers", hoverinfo: "skip", marker: { color: "rgba(0,0,0,0)", size: 15, line: { color: colors.text, width: 2 } } },
    ] // prettier-ignore
    const y = { title: { text: "Mean squared error", standoff: 6, font: { size: 11 } } }
    const named = [curve.best, curve.one_se].map((i, n) => ({
      x: Math.log10(curve.alphas[i]), y: curve.mean[i], text: n ? "1-SE" : "best", showarrow: false, yshift: 15, xshift: 16, font: { size: 11, color: colors.text },
    })) // prettier-ignore
    return [traces, this.layout(colors, {}, y, { annotations: curve.best === curve.one_se ? named.slice(0, 1) : named })]
  }

  move(Plotly) {
    const { point } = this.view
    return Plotly.update(this.div, { x: [[point.alpha]], y: [[point.cv.mse]] }, this.shifted(), [4])
  }

  describe() {
    const { curve, point } = this.view
    const at = (i) => `${number(curve.mean[i])} at alpha ${number(curve.alphas[i])}`
    this.div.setAttribute("aria-label",
      `Cross-validated mean squared error over ${curve.alphas.length} penalties: lowest ${at(curve.best)}, ` +
      `strongest penalty within one standard error ${at(curve.one_se)}, now ${number(point.cv.mse)} at alpha ${number(point.alpha)}`) // prettier-ignore
  }
}

class PathChart extends Figure {
  constructor(view) {
    super(view, "Coefficients along the path", "standardised")
  }

  whole(colors) {
    const { curve, terms } = this.view
    const reach = terms.map((_, j) => curve.path.reduce((most, w) => Math.max(most, Math.abs(w[j])), 0))
    const order = terms.map((_, j) => j).sort((a, b) => reach[b] - reach[a])
    this.top = order.slice(0, NAMED).filter((j) => reach[j] > 0)
    const rest = order.slice(NAMED).filter((j) => reach[j] > 0)
    const line = (j) => curve.path.map((w) => w[j])
    const grey = { x: [], y: [], type: "scatter", mode: "lines", hoverinfo: "skip", connectgaps: false, line: { color: "rgba(128,128,128,0.35)", width: 1 }, showlegend: false } // prettier-ignore
    for (const j of rest) {
      grey.x.push(...curve.alphas, null)
      grey.y.push(...line(j), null)
    }
    const traces = this.top.map((j, n) => ({
      x: curve.alphas, y: line(j), type: "scatter", mode: "lines", name: escaped(shortened(terms[j])), line: { color: colors.colors[n], width: 2 },
      hovertemplate: `${escaped(shortened(terms[j], 60))}<br>alpha %{x:.4g}<br>%{y:.4g}<extra></extra>`,
    })) // prettier-ignore
    put(this.note, rest.length ? `standardised; ${rest.length} ${rest.length === 1 ? "other is" : "others are"} grey` : "standardised") // prettier-ignore
    const legend = { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: 11 }, itemclick: false, itemdoubleclick: false } // prettier-ignore
    const layout = this.layout(colors, {}, { zeroline: true, zerolinecolor: colors.border }, { showlegend: true, legend, margin: { l: 58, r: 14, t: this.div.clientWidth < 420 ? 76 : 54, b: 42 } }) // prettier-ignore
    return [[grey, ...traces], layout]
  }

  move(Plotly) {
    return Plotly.relayout(this.div, this.shifted())
  }

  describe() {
    const { terms, point } = this.view
    const largest = terms.map((name, j) => [name, point.weights[j]]).filter(([, w]) => w).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 5) // prettier-ignore
    const said = largest.map(([name, w]) => `${name} ${number(w, 3)}`).join(", ")
    this.div.setAttribute("aria-label", `Standardised coefficients over alpha. At alpha ${number(point.alpha)} the largest are: ${said || "none"}`) // prettier-ignore
  }
}

// ------------------------------------------------------------------ the view

class Tune {
  constructor(parent, settings) {
    this.settings = settings
    const { start } = settings
    this.state = { predict: start.predict || settings.target, out: new Set(start.out), model: start.model, ratio: start.ratio, alpha: start.alpha } // prettier-ignore
    this.asker = new Asker((answer, more) => this.take(answer, more), (problem, mortal) => this.fail(problem, mortal))
    this.root = el("div", "tune")
    this.root.setAttribute("aria-busy", "true")
    parent.append(this.root)
    this.build()
    this.follow()
  }

  get alpha() {
    return this.point?.alpha
  }

  build() {
    this.error = new ErrorCurve(this)
    this.lines = new PathChart(this)
    this.problem = el("div", "tune-problem")
    this.problem.setAttribute("role", "alert")
    this.flat = el("div", "tune-card tune-wide tune-flat", "A linear model has no penalty, so there is no curve and no path: its one answer is below.") // prettier-ignore
    this.flat.hidden = true
    this.root.append(
      this.controls(), this.problem, this.tiles(), this.error.root, this.lines.root, this.flat,
      this.coefficients(), this.columns(), this.doubt(), this.actions(),
    ) // prettier-ignore
  }

  // ---- controls

  controls() {
    const root = el("section", "tune-card tune-wide tune-controls")
    root.setAttribute("aria-label", "Model")
    const models = el("div", "tune-models")
    models.setAttribute("role", "radiogroup")
    models.setAttribute("aria-label", "Model")
    this.radios = this.settings.models.map((model) => {
      const label = el("label")
      const input = el("input")
      Object.assign(input, { type: "radio", name: `tune-model-${++serial}`, value: model.key })
      input.onchange = () => this.change({ model: model.key, alpha: this.pinned ? this.state.alpha : `place:${this.place ?? 50}` }) // prettier-ignore
      label.title = model.about
      label.append(input, el("span", "", model.name))
      models.append(label)
      return input
    })
    for (const radio of this.radios) radio.name = this.radios[0].name // one group: arrow keys move in it
    this.about = el("div", "tune-about")
    root.append(this.targets(), this.block("Model", models, this.about), this.alphaSlider(), this.ratioSlider())
    return root
  }

  block(title, ...content) {
    const root = el("div", "tune-block")
    if (title) root.append(el("div", "tune-label", title))
    root.append(...content)
    return root
  }

  targets() {
    this.target = el("select", "tune-select")
    const { targets, elsewhere } = this.settings
    const options = (names, into) => names.forEach((name) => into.append(Object.assign(el("option", "", name), { value: name }))) // prettier-ignore
    options(targets, this.target)
    if (elsewhere.length) {
      const group = el("optgroup")
      group.label = "With missing values: summed anew"
      options(elsewhere, group)
      this.target.append(group)
    }
    this.target.onchange = () => {
      const name = this.target.value
      if (elsewhere.includes(name)) {
        this.asker.close()
        this.root.setAttribute("aria-busy", "true")
        this.tell("target", name)
      } else this.change({ predict: name, alpha: this.pinned ? this.state.alpha : `place:${this.place ?? 50}` })
    }
    const root = el("div", "tune-block")
    root.append(labelled("Column to predict", this.target), this.target)
    return root
  }

  alphaSlider() {
    this.slider = el("input", "tune-range")
    Object.assign(this.slider, { type: "range", min: 0, max: 99, step: 1, value: 50 })
    this.slider.oninput = () => {
      const place = this.slider.max - this.slider.value
      const known = this.curve && !this.pending
      this.change({ alpha: known ? String(this.curve.alphas[place]) : `place:${place}` })
    }
    this.typed = el("input", "tune-number")
    Object.assign(this.typed, { type: "text", inputMode: "decimal", autocomplete: "off" })
    this.typed.setAttribute("aria-label", "Alpha as a number")
    this.typed.onchange = () => {
      const value = Number(this.typed.value.replace(",", "."))
      const fine = Number.isFinite(value) && value >= 0 && this.typed.value.trim() !== ""
      this.typed.setAttribute("aria-invalid", String(!fine))
      put(this.problem, fine ? "" : `Expected a number of at least 0 for alpha, got '${this.typed.value}'. The last one still counts.`) // prettier-ignore
      if (fine) this.change({ alpha: String(value) })
    }
    this.typed.onblur = () => {
      this.typed.removeAttribute("aria-invalid")
      this.drawControls()
    }
    this.best = button("Best", () => this.change({ alpha: "best" }), "The alpha with the lowest cross-validated error. It is kept when anything else changes.") // prettier-ignore
    this.oneSe = button("1-SE", () => this.change({ alpha: "one_se" }), "The strongest penalty whose error is within one standard error of the best: a simpler model that is about as good.") // prettier-ignore
    this.alphaBlock = el("div", "tune-block")
    const head = el("div", "tune-head")
    head.append(labelled("Penalty strength (alpha)", this.slider), this.typed, this.best, this.oneSe)
    const ends = el("div", "tune-ends")
    cells(ends, "span", ["weaker", "stronger"])
    this.edge = el("div", "tune-hint")
    this.alphaBlock.append(head, this.slider, ends, this.edge)
    return this.alphaBlock
  }

  ratioSlider() {
    this.ratio = el("input", "tune-range")
    Object.assign(this.ratio, { type: "range", min: 0, max: 1, step: 0.05 })
    this.ratio.oninput = () => this.change({ ratio: Number(this.ratio.value) })
    this.ratioShown = el("output", "tune-value")
    this.ratioBlock = el("div", "tune-block")
    const head = el("div", "tune-head")
    head.append(labelled("Mixing ratio", this.ratio, "The share of the L1 part of the penalty, l1_ratio."), this.ratioShown) // prettier-ignore
    const ends = el("div", "tune-ends")
    cells(ends, "span", ["0: ridge, keeps all", "1: lasso, picks columns"])
    this.ratioBlock.append(head, this.ratio, ends)
    return this.ratioBlock
  }

  drawControls() {
    const { state, point, curve } = this
    for (const radio of this.radios) radio.checked = radio.value === state.model
    put(this.about, this.settings.models.find((model) => model.key === state.model)?.about ?? "")
    this.target.value = state.predict
    this.alphaBlock.hidden = state.model === "linear"
    this.ratioBlock.hidden = state.model !== "elasticnet"
    this.ratio.value = state.ratio
    put(this.ratioShown, state.ratio.toFixed(2))
    this.best.setAttribute("aria-pressed", String(state.alpha === "best"))
    this.oneSe.setAttribute("aria-pressed", String(state.alpha === "one_se"))
    const last = curve && !this.pending && curve.alphas.length - 1
    put(this.edge, last && curve.best === last ? "The best is at the weak end of this curve: a smaller alpha, typed as a number, may be better still." : "") // prettier-ignore
    if (!point) return
    if (document.activeElement !== this.typed || !this.typed.matches(":focus-visible")) this.typed.value = String(Number(point.alpha.toPrecision(5))) // prettier-ignore
    this.slider.setAttribute("aria-valuetext", `alpha ${number(point.alpha)}`)
    if (curve && curve.alphas.length > 1) {
      this.slider.max = curve.alphas.length - 1
      this.slider.value = this.slider.max - this.wanted
    }
  }

  // ---- tiles

  tiles() {
    const root = el("div", "tune-tiles tune-wide")
    const tile = (key, label, help) => {
      const box = el("div", "tune-tile")
      box.dataset.tile = key
      box.title = help
      const value = el("div", "tune-big", "–")
      const note = el("div", "tune-note", "\u00a0")
      box.append(el("div", "tune-label", label), value, note)
      root.append(box)
      return { box, value, note }
    }
    this.tile = {
      cv: tile("cv", "Cross-validated error (RMSE)", "What the model is off by on rows that it was not fitted to: the root of the mean squared error over all folds, in the target's units."),
      r2: tile("r2", "Explained in cross-validation", "1 - (cross-validated mean squared error) / (variance of the target): 100 % is perfect, 0 % is as good as always saying the mean."),
      train: tile("train", "Error on training rows", "The same on the rows it was fitted to. Much lower than the cross-validated error means that it learns noise."),
      test: tile("test", "Error on test rows", "The same on the rows that were kept apart from everything here."),
      kept: tile("kept", "Columns kept", "Columns of the file with a weight that is not 0."),
    } // prettier-ignore
    return root
  }

  drawTiles() {
    const { point, owners, settings, state } = this
    const { cv, train, test } = point
    put(this.tile.cv.value, number(cv.rmse))
    put(this.tile.cv.note, `mean squared error ${number(cv.mse)} ± ${number(cv.se, 3)}`)
    put(this.tile.r2.value, share(cv.r2))
    put(this.tile.r2.note, "of the target's variance")
    put(this.tile.train.value, number(train.rmse))
    put(this.tile.train.note, `${share(train.r2)} explained`)
    this.tile.test.box.hidden = !test
    if (test) {
      put(this.tile.test.value, number(test.rmse))
      put(this.tile.test.note, `${share(test.r2)} explained`)
    }
    this.kept = new Set(owners.flatMap((columns, j) => (point.weights[j] ? columns : [])))
    const used = settings.columns.filter((name) => name !== state.predict && !state.out.has(name)).length
    put(this.tile.kept.value, `${this.kept.size} of ${used}`)
    const weights = point.weights.filter((w) => w).length
    put(this.tile.kept.note, weights === this.kept.size ? "\u00a0" : `${weights} weights, with levels of text columns`)
  }

  // ---- coefficients

  coefficients() {
    const { root, note, tools } = card("Coefficients at this alpha")
    this.coefNote = note
    this.all = button("Show all", () => {
      this.showsAll = !this.showsAll
      this.drawCoefficients()
    })
    tools.append(this.all)
    const holder = el("div", "tune-scroll")
    this.table = el("table", "tune-table")
    holder.append(this.table)
    this.certificate = el("div", "tune-hint")
    root.append(holder, this.certificate)
    root.dataset.part = "coefficients"
    return root
  }

  drawCoefficients() {
    const { terms, point } = this
    const order = terms.map((_, j) => j).sort((a, b) => Math.abs(point.weights[b]) - Math.abs(point.weights[a]))
    const kept = order.filter((j) => point.weights[j])
    const shown = this.showsAll ? order : kept.slice(0, ROWS)
    const most = Math.max(...kept.slice(0, 1).map((j) => Math.abs(point.weights[j])), 1e-300)
    const head = cells(el("tr"), "th", ["Column", "Weight", "Standardised", "In the file's units"])
    const rows = shown.map((j) => this.coefficient(terms[j], point.weights[j], point.coefficients[j], most))
    const last = cells(el("tr", "tune-quiet"), "td", ["(intercept)", "", "", number(point.intercept)])
    this.table.replaceChildren(el("thead"), el("tbody"))
    this.table.tHead.append(head)
    this.table.tBodies[0].append(...rows, last)
    const zeros = terms.length - kept.length
    put(this.coefNote, zeros ? `${kept.length} with a weight, ${zeros} are exactly 0` : `${kept.length} with a weight`)
    this.all.hidden = terms.length <= ROWS && !zeros
    put(this.all, this.showsAll ? "Show fewer" : `Show all ${terms.length}`)
    const { kind, relative } = point.certificate
    const sure = relative < 1e-8 ? "exact to rounding" : `within ${number(relative, 2)} of the optimum`
    put(this.certificate, `Proven by its ${kind === "kkt" ? "gradient" : "duality gap"}: ${sure}.`)
  }

  coefficient(name, w, coef, most) {
    const row = el("tr")
    row.dataset.term = name
    const named = el("td", "tune-name", name)
    named.title = name
    const bar = el("td", "tune-bar")
    const fill = el("i")
    fill.style.width = `${(50 * Math.abs(w)) / most}%`
    fill.style[w < 0 ? "right" : "left"] = "50%"
    fill.className = w < 0 ? "is-minus" : ""
    bar.append(fill)
    const value = el("td", "tune-figure", number(coef))
    value.dataset.value = coef
    row.append(named, bar, el("td", "tune-figure", number(w, 3)), value)
    return row
  }

  // ---- columns

  columns() {
    const { root, note, tools } = card("Columns", "and how much the error rises without each")
    root.classList.add("tune-ticks")
    this.worthNote = note
    this.search = el("input", "tune-search")
    Object.assign(this.search, { type: "search", placeholder: "Find a column" })
    this.search.setAttribute("aria-label", "Find a column")
    this.search.oninput = () => this.drawColumns()
    this.order = button("By importance", () => {
      this.ranked = !this.ranked
      this.order.setAttribute("aria-pressed", String(this.ranked))
      this.drawColumns()
    })
    this.order.setAttribute("aria-pressed", "false")
    tools.append(this.order, button("All", () => this.tick([])), button("None", () => this.tick(this.settings.columns))) // prettier-ignore
    this.list = el("ul", "tune-columns")
    this.list.setAttribute("aria-label", "Columns to predict from")
    this.items = new Map(this.settings.columns.map((name) => [name, this.item(name)]))
    this.explained = el("div", "tune-hint", "Importance: how much the mean squared error of cross-validation rises, in percent, when the column is left out with all its levels and the model is refitted at this alpha.") // prettier-ignore
    if (this.items.size > 12) root.append(this.search)
    root.append(this.list, this.explained)
    root.dataset.part = "columns"
    return root
  }

  item(name) {
    const line = el("li")
    const label = el("label")
    const box = el("input")
    box.type = "checkbox"
    box.onchange = () => {
      const out = new Set(this.state.out)
      out[box.checked ? "delete" : "add"](name)
      this.change({ out })
    }
    const text = el("span", "tune-name", name)
    text.title = name
    label.append(box, text)
    const bar = el("span", "tune-worth")
    bar.append(el("i"))
    const value = el("span", "tune-figure", "")
    line.append(label, bar, value)
    return { line, box, bar: bar.firstChild, value }
  }

  tick(out) {
    this.change({ out: new Set(out.filter((name) => name !== this.state.predict)) })
  }

  drawColumns() {
    const { state, worth } = this
    const wanted = this.search.value.toLowerCase()
    const names = this.settings.columns.filter((name) => name !== state.predict && name.toLowerCase().includes(wanted))
    const rise = (name) => worth?.rises[name] ?? -Infinity
    if (this.ranked && worth) names.sort((a, b) => rise(b) - rise(a))
    const most = Math.max(...Object.values(worth?.rises ?? {}), 1e-300)
    for (const name of names) {
      const { line, box, bar, value } = this.items.get(name)
      const off = state.out.has(name)
      box.checked = !off
      line.classList.toggle("is-off", off)
      line.classList.toggle("is-zero", !off && !!this.kept && !this.kept.has(name))
      const known = worth && name in worth.rises && !off
      bar.style.width = known ? `${Math.max(0, (100 * worth.rises[name]) / most)}%` : "0"
      put(value, known ? this.percent(worth.rises[name] / worth.error) : off ? "left out" : "…")
    }
    const lines = names.map((name) => this.items.get(name).line)
    if (lines.length !== this.list.children.length || lines.some((line, i) => line !== this.list.children[i])) this.list.replaceChildren(...lines) // prettier-ignore
    this.list.classList.toggle("is-stale", !!worth && this.worthFor !== this.asked)
  }

  percent(rise) {
    if (!Number.isFinite(rise)) return "–"
    if (rise === 0) return "0 %"
    return `${rise > 0 ? "+" : "−"}${Math.abs(100 * rise) < 0.01 ? "<0.01" : number(Math.abs(100 * rise), 3)} %`
  }

  // ---- how sure

  doubt() {
    const { root, tools } = card("How sure is this?", "intervals of the coefficients")
    root.classList.add("tune-wide")
    root.dataset.part = "doubt"
    this.compute = button("Work out intervals", () => this.askDoubt())
    tools.append(this.compute)
    this.doubtBox = el("div")
    this.doubtBox.setAttribute("aria-live", "polite")
    this.doubtBox.append(el("div", "tune-hint", "By formula, and by refitting the model to 500 resamples of the rows. It takes a second or so, and reads no file.")) // prettier-ignore
    root.append(this.doubtBox)
    return root
  }

  async askDoubt() {
    const asked = this.asked
    this.compute.disabled = true
    this.doubtBox.replaceChildren(el("div", "tune-hint", "Refitting the model to 500 resamples …"))
    try {
      const found = await ask(`${this.settings.url}/doubt?${this.exact()}`)
      this.drawDoubt(found)
      this.doubtFor = asked
    } catch (error) {
      this.doubtBox.replaceChildren(el("div", "tune-problem", error.message))
    }
    this.compute.disabled = false
    this.markDoubt()
  }

  markDoubt() {
    const old = this.doubtFor !== undefined && this.doubtFor !== this.asked
    this.doubtBox.classList.toggle("is-stale", old)
    put(this.compute, old ? "Work them out for this model" : "Work out intervals")
  }

  drawDoubt(found) {
    const { ways, selection, terms } = found
    const titles = ways.map((way) => `${way.title}: ${Math.round(100 * way.confidence)} % interval`)
    const head = cells(el("tr"), "th", ["Column", ways[0].of, ...titles, ...(selection ? ["Kept in"] : [])])
    const order = terms.map((_, j) => j)
    const strength = (j) => Math.abs(this.terms[j] === terms[j] ? this.point.weights[j] : 0)
    order.sort((a, b) => strength(b) - strength(a))
    const rows = order.map((j) => {
      const row = el("tr")
      const name = el("td", "tune-name", terms[j])
      name.title = terms[j]
      row.append(name, el("td", "tune-figure", number(ways[0].estimate[j])))
      for (const way of ways) {
        const [low, high] = [way.low[j], way.high[j]]
        const known = low !== null && high !== null
        const cell = el("td", "tune-figure", known ? `${number(low, 4)} to ${number(high, 4)}` : "not determined")
        if (known && low * high > 0) cell.classList.add("is-sure")
        row.append(cell)
      }
      if (selection) row.append(el("td", "tune-figure", share(selection.shares[j])))
      return row
    })
    const table = el("table", "tune-table")
    table.append(el("thead"), el("tbody"))
    table.tHead.append(head)
    table.tBodies[0].append(...rows)
    const holder = el("div", "tune-scroll tune-tall")
    holder.tabIndex = 0
    holder.append(table)
    const words = el("dl", "tune-words")
    for (const way of ways) words.append(el("dt", "", way.title), el("dd", "", way.meaning))
    if (selection) words.append(el("dt", "", "Kept in"), el("dd", "", selection.meaning))
    if (found.problem) words.append(el("dt", "", "Resamples"), el("dd", "", found.problem))
    this.doubtBox.replaceChildren(el("div", "tune-hint", "Estimates and intervals in the file's units; those in bold do not hold 0."), holder, words) // prettier-ignore
  }

  // ---- what can be done with it

  actions() {
    const root = el("section", "tune-card tune-wide tune-actions")
    root.setAttribute("aria-label", "What to do with this model")
    this.train = button("Train this model", () => {
      this.train.disabled = true
      this.tell("train", { ...this.said(), alpha: String(this.alpha) })
    })
    this.train.classList.add("is-primary")
    this.copy = button("Copy command", () => this.copyCommand())
    this.copied = el("span", "tune-hint", "An exact run with these settings; the model then waits in Models.")
    this.copied.setAttribute("role", "status")
    this.commands = el("pre", "tune-command")
    this.commands.hidden = true
    root.append(this.train, this.copy, this.copied, this.commands)
    return root
  }

  async copyCommand() {
    try {
      const { lines } = await ask(`${this.settings.url}/command?${this.exact()}`)
      put(this.commands, lines.join("\n"))
      this.commands.hidden = false
      await navigator.clipboard.writeText(lines.join("\n"))
      put(this.copied, "Copied: the first line trains this model, the second makes its curve.")
    } catch (error) {
      put(this.copied, this.commands.hidden ? error.message : "The browser does not let pages copy here; mark the lines below.") // prettier-ignore
    }
  }

  // ---- questions and answers

  get pinned() {
    return this.state.alpha === "best" || this.state.alpha === "one_se"
  }

  // The place of the path that is nearest to the alpha that is shown.
  get place() {
    if (this.curve && this.curve.alphas.length > 1 && this.point) this.lastPlace = this.nearest(this.point.alpha)
    return this.lastPlace // a linear model has no path: whoever leaves it comes back to where the slider stood
  }

  // And to the alpha that was asked for last: the slider must not go back while an answer is on its way.
  get wanted() {
    const { alpha } = this.state
    if (this.pinned) return this.place
    return alpha.startsWith("place:") ? Number(alpha.slice(6)) : this.nearest(Number(alpha))
  }

  nearest(alpha) {
    const { alphas } = this.curve
    const far = (i) => Math.abs(Math.log(Math.max(alphas[i], 1e-300) / Math.max(alpha, 1e-300)))
    let found = 0
    for (let i = 1; i < alphas.length; i++) if (far(i) < far(found)) found = i
    return found
  }

  said() {
    const { predict, out, model, ratio, alpha } = this.state
    return { predict: predict === this.settings.target ? "" : predict, out: [...out], model, ratio, alpha }
  }

  parameters(more = {}) {
    const { predict, out, model, ratio, alpha } = this.said()
    const given = new URLSearchParams({ model, alpha, ...more })
    if (model === "elasticnet") given.set("ratio", String(ratio))
    if (predict) given.set("predict", predict)
    if (out.length) given.set("out", JSON.stringify(out))
    return given.toString()
  }

  // The question at the very alpha that is shown.
  exact() {
    return this.parameters({ alpha: String(this.alpha) })
  }

  change(changes) {
    Object.assign(this.state, changes)
    this.follow()
    this.drawControls()
  }

  pick(alpha) {
    if (typeof alpha === "number" && this.curve) this.change({ alpha: String(alpha) })
  }

  follow() {
    this.asked = this.parameters()
    clearTimeout(this.resting)
    this.worthStop?.abort()
    const more = { ...(this.key && { have: this.key }), ...(this.alpha !== undefined && { near: String(this.alpha) }) }
    this.asker.ask(`${this.settings.url}?${this.parameters(more)}`)
    clearTimeout(this.addressing)
    this.addressing = setTimeout(() => this.keepAddress(), ADDRESS)
  }

  take(answer, more) {
    this.point = answer.point
    this.pending = answer.pending
    // Without their curve: whoever comes back to the one before needs its terms again.
    if (answer.terms) Object.assign(this, { terms: answer.terms, owners: answer.owners, key: null })
    if (answer.curve) {
      this.key = answer.key
      this.curve = { ...answer.curve, path: unpacked(answer.curve.path, answer.terms.length) }
    }
    if (this.state.alpha.startsWith("place:") && !more) {
      this.state.alpha = String(answer.point.alpha)
      this.asked = this.parameters()
      this.keepAddress()
    }
    put(this.problem, "")
    if (this.root.classList.contains("is-refused")) {
      this.root.classList.remove("is-refused")
      this.train.disabled = false
    }
    this.schedule()
    if (more) return
    if (answer.pending) this.asker.next = `${this.settings.url}?${this.parameters({ ...(this.key && { have: this.key }), wait: "1" })}` // prettier-ignore
    else this.resting = setTimeout(() => this.askWorth(), REST)
  }

  fail(problem, mortal) {
    put(this.problem, problem)
    this.root.setAttribute("aria-busy", "false")
    // What is on the page answers another question than the one that was refused.
    this.root.classList.toggle("is-refused", !!mortal)
    if (mortal) this.train.disabled = true
    this.drawControls()
    this.drawColumns()
    if (!mortal) this.resting = setTimeout(() => this.follow(), RETRY)
  }

  async askWorth() {
    const asked = this.asked
    this.worthStop = new AbortController()
    try {
      this.worth = await ask(`${this.settings.url}/worth?${this.exact()}`, this.worthStop.signal)
      this.worthFor = asked
    } catch {
      return // something newer is asked, or the next answer says what is wrong
    }
    this.drawColumns()
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null
      this.draw()
    })
  }

  draw(anew = false) {
    if (!this.point || !this.terms) return
    const began = performance.now()
    this.root.setAttribute("aria-busy", String(!!this.pending))
    this.drawControls()
    this.drawTiles()
    this.drawCoefficients()
    this.drawColumns()
    this.markDoubt()
    this.flat.hidden = this.state.model !== "linear" || this.pending
    for (const figure of [this.error, this.lines]) {
      figure.root.classList.toggle("is-stale", !!this.pending)
      if (!this.pending) figure.draw(anew).catch(() => {}) // drawn again with the next answer
    }
    this.root.dataset.drawn = `${this.alpha}`
    this.cost = performance.now() - began
  }

  keepAddress() {
    const place = new URL(location.href)
    const { predict, out, model, ratio, alpha } = this.said()
    const said = { predict, out: out.length ? JSON.stringify(out) : "", model: model === "lasso" ? "" : model, ratio: model === "elasticnet" ? String(ratio) : "", alpha: alpha === "best" ? "" : alpha } // prettier-ignore
    for (const [part, text] of Object.entries(said)) {
      if (text) place.searchParams.set(part, text)
      else place.searchParams.delete(part)
    }
    if (place.href !== location.href) history.replaceState(history.state, "", place)
  }

  settle(settings, tell) {
    Object.assign(this, { settings, tell })
    this.train.disabled = false
    this.draw(true) // the theme may be another
  }

  destroy() {
    for (const timer of [this.resting, this.addressing]) clearTimeout(timer)
    cancelAnimationFrame(this.frame)
    this.worthStop?.abort()
    this.asker.close()
    this.error.destroy()
    this.lines.destroy()
    this.root.remove()
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  let view = tunes.get(parentElement)
  if (view && view.settings.url !== data.url) {
    view.destroy()
    view = null
  }
  if (!view) tunes.set(parentElement, (view = new Tune(parentElement, data)))
  view.settle(data, setTriggerValue)
  return () => {
    tunes.delete(parentElement)
    view.destroy()
  }
}
