// The two charts of the Tune page: the error over the penalty, and the coefficients over it.

const NAMED = 8 // lines of the path that have a colour and a name

class Figure {
  constructor(view, title, hint) {
    this.view = view
    const { root, note } = card(title, hint)
    Object.assign(this, { root, note })
    this.div = el("div", "tune-plot")
    this.div.setAttribute("role", "img")
    this.div.setAttribute("aria-label", title) // a picture has a name before it has a curve
    this.root.append(this.div)
    this.size = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = this.div
      if (this.width && clientWidth && (clientWidth !== this.width || clientHeight !== this.height)) this.draw(true)
    })
    this.size.observe(this.div)
  }

  layout(colors, x, y, more = {}) {
    const axis = { gridcolor: colors.border, linecolor: colors.border, zeroline: false, tickfont: { size: 11 }, exponentformat: "power" } // prettier-ignore
    this.width = this.div.clientWidth
    this.height = this.div.clientHeight
    return {
      width: this.width, height: this.height, margin: { l: 58, r: 14, t: 10, b: 42 },
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
    if (!this.plotted) put(this.div, "Drawing …") // no empty frame while the library is fetched
    const Plotly = await loadPlotly(view.settings.plotly)
    if (this.root.hidden || !this.div.clientWidth) return
    if (anew || this.drawn !== view.curve) {
      this.drawn = view.curve
      const first = !this.plotted
      if (first) this.div.replaceChildren()
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
    this.names = el("ul", "tune-names") // beside the chart, not in it: in narrow windows Plotly's would cover the lines
    this.div.before(this.names)
  }

  whole(colors) {
    const { curve, terms } = this.view
    const reach = terms.map((_, j) => curve.path.reduce((most, w) => Math.max(most, Math.abs(w[j])), 0))
    const order = terms.map((_, j) => j).sort((a, b) => reach[b] - reach[a])
    this.top = order.slice(0, NAMED).filter((j) => reach[j] > 0)
    const rest = order.slice(NAMED).filter((j) => reach[j] > 0)
    const line = (j) => curve.path.map((w) => w[j])
    const grey = { x: [], y: [], type: "scatter", mode: "lines", hoverinfo: "skip", connectgaps: false, line: { color: "rgba(128,128,128,0.35)", width: 1 } } // prettier-ignore
    for (const j of rest) {
      grey.x.push(...curve.alphas, null)
      grey.y.push(...line(j), null)
    }
    const traces = this.top.map((j, n) => ({
      x: curve.alphas, y: line(j), type: "scatter", mode: "lines", line: { color: colors.colors[n], width: 2 },
      hovertemplate: `${whole(terms[j])}<br>alpha %{x:.4g}<br>%{y:.4g}<extra></extra>`,
    })) // prettier-ignore
    put(this.note, rest.length ? `standardised; ${rest.length} ${rest.length === 1 ? "other is" : "others are"} grey` : "standardised") // prettier-ignore
    this.names.replaceChildren(...this.top.map((j, n) => this.name(j, colors.colors[n])))
    return [[grey, ...traces], this.layout(colors, {}, { zeroline: true, zerolinecolor: colors.border })]
  }

  name(j, color) {
    const { terms, owners } = this.view
    const item = el("li")
    const mark = el("i")
    mark.style.background = color
    item.append(mark, el("span", "", inLegend(terms[j], owners[j])))
    item.title = terms[j]
    return item
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
