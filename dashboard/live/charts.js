// Curves over the rounds of a run. Which fields they show is said by Python (plot.py); nothing here knows what a loss is.

const LOADING = "Loading the curves"
const wrapped = (text) => escaped(text).replace(/(.{50}\S*)\s/g, "$1<br>")
const MARKED = 60 // changes by a person that are marked, the newest ones
const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`)
const unitOf = { percent, number, rate: (v) => `${number(v, 3)} B/s` }

class Plot extends Panel {
  constructor(view, spec) {
    super(view, spec)
    this.visible = false // until the browser says otherwise: charts that nobody sees are not drawn
    this.holder = el("div", "shoal-plot")
    this.holder.style.height = `${spec.height}px`
    this.div = el("div")
    this.div.setAttribute("role", "img")
    this.div.setAttribute("aria-label", spec.title) // a picture has a name before it has a curve
    this.note = el("div", "shoal-empty")
    this.holder.append(this.div, this.note)
    this.root.append(this.holder)
    this.reset = el("button", "shoal-small", "Reset zoom")
    this.reset.type = "button"
    this.reset.hidden = true
    this.reset.onclick = () => this.zoomOut()
    this.tools.append(this.reset)
    this.revision = 0
    this.resizer = new ResizeObserver(() => {
      if (this.drawn && this.holder.clientWidth !== this.drawn.width) {
        this.dirty = true
        view.schedule()
      }
    })
    this.resizer.observe(this.holder)
    // A drawing in the middle of a drag would take the box away from under the pointer.
    this.div.addEventListener("pointerdown", () => (this.held = true), true)
    this.release = () => {
      if (this.held) {
        this.held = false
        this.dirty = true
        view.schedule()
      }
    }
    addEventListener("pointerup", this.release)
    addEventListener("pointercancel", this.release)
  }

  destroy() {
    removeEventListener("pointerup", this.release)
    removeEventListener("pointercancel", this.release)
    this.resizer.disconnect()
    if (this.drawn) globalThis.Plotly.purge(this.div)
  }

  zoomOut() {
    this.zoom = (this.zoom ?? 0) + 1 // another uirevision: what a person did with the axes is forgotten
    this.reset.hidden = true
    this.dirty = true
    this.view.schedule()
  }

  axis(colors, more) {
    return {
      gridcolor: colors.border, linecolor: colors.border, zeroline: false, ticks: "", fixedrange: false,
      tickfont: { size: 11 }, ...more,
    } // prettier-ignore
  }

  layout(colors, x, y, more = {}) {
    return {
      width: this.holder.clientWidth, height: this.holder.clientHeight, datarevision: ++this.revision,
      uirevision: `kept${this.zoom ?? 0}`, margin: { l: 58, r: 14, t: 8, b: 40, ...more.margin },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: colors.font, size: 12, color: colors.text },
      hoverlabel: { bgcolor: colors.background, bordercolor: colors.border, font: { size: 12, color: colors.text } },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: this.axis(colors, x), yaxis: this.axis(colors, y), showlegend: false, ...more.layout,
    } // prettier-ignore
  }

  async plot(traces, layout) {
    const Plotly = await loadPlotly(this.view.settings.plotly)
    const config = { displayModeBar: false, doubleClick: false, showTips: false }
    await Plotly.react(this.div, traces, layout, config)
    if (!this.drawn) {
      this.div.on("plotly_relayout", (e) => {
        if (Object.keys(e).some((name) => /axis\.range/.test(name))) this.reset.hidden = false
      })
      this.div.on("plotly_doubleclick", () => this.zoomOut())
    }
    this.drawn = { width: layout.width }
  }
}

class Chart extends Plot {
  constructor(view, spec) {
    super(view, spec)
    this.log = spec.log
    if (spec.switch) {
      this.scale = el("button", "shoal-small", "Log scale")
      this.scale.type = "button"
      this.scale.setAttribute("aria-pressed", "false")
      this.scale.onclick = () => {
        this.log = !this.log
        this.scale.setAttribute("aria-pressed", String(this.log))
        this.zoomOut()
      }
      this.tools.append(this.scale)
    }
  }

  async draw(data) {
    const table = data[this.spec.table]
    const axis = this.spec.by_rounds ? this.view.axis : this.spec.x
    const x = table[axis.field] ?? []
    const series = this.seriesOf(table)
    const known = series.filter((s) => table[s.field]?.some((v) => v !== null))
    const waits = !x.length
    put(this.note, waits ? (data.loaded ? this.spec.waiting : LOADING) : known.length ? "" : this.spec.unknown)
    this.note.hidden = !waits && known.length > 0
    this.div.style.visibility = this.note.hidden ? "" : "hidden"
    this.outline(data)
    if (waits || !known.length || !this.holder.clientWidth) return
    const colors = theme(this.root)
    const traces = series.map((s) => this.trace(s, colors, x, table, data))
    const many = series.length > 1
    await this.plot(traces, this.layout(colors, this.xAxis(axis), this.yAxis(), {
      margin: { t: many ? 30 : 8 },
      // Without a limit: a long run is thinned, and the points of a zoomed stretch get further apart than its 20 pixels.
      layout: { hovermode: "x unified", hoverdistance: -1, showlegend: many,
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1.01, yanchor: "bottom", font: { size: 11 } },
        ...this.marks(colors, axis, table, data.events) },
    })) // prettier-ignore
  }

  seriesOf(table) {
    const { each, series } = this.spec
    if (!each) return series
    const numbers = Object.keys(table).filter((name) => /^\d+$/.test(name)).sort((a, b) => a - b) // prettier-ignore
    return numbers.map((name, n) => ({ field: name, name: `${each} ${name}`, color: n % 10, smooth: true }))
  }

  // Where a person has changed the course of the run: a line, and what was done when one points at its top.
  marks(colors, axis, table, events) {
    const told = events.filter((e) => e.mark && e.seconds !== null).slice(-MARKED)
    const at = (e) => {
      if (axis.field === "seconds" || !this.spec.by_rounds) return e.seconds
      const place = table.round.findIndex((round) => round >= e.round)
      return table[axis.field][place < 0 ? table.round.length - 1 : place]
    }
    const color = colors.colors[6]
    return {
      shapes: told.map((e) => ({ type: "line", xref: "x", yref: "paper", x0: at(e), x1: at(e), y0: 0, y1: 1, line: { color, width: 1, dash: "dot" } })),
      annotations: told.map((e) => ({ x: at(e), y: 1, xref: "x", yref: "paper", yanchor: "middle", text: "◆", showarrow: false, font: { size: 10, color },
        hovertext: wrapped(`${span(e.seconds)}: ${e.mark}`), captureevents: true })),
    } // prettier-ignore
  }

  xAxis(axis) {
    return { title: { text: axis.title, standoff: 8, font: { size: 11 } }, uirevision: `${axis.field}${this.zoom ?? 0}`,
      hoverformat: axis.hover, nticks: 7 } // prettier-ignore
  }

  yAxis() {
    const { spec } = this
    return { type: this.log ? "log" : "linear", tickformat: spec.ticks || undefined, exponentformat: "power",
      range: spec.range || undefined, autorange: spec.range ? false : true, nticks: 6,
      ticksuffix: spec.suffix || "", rangemode: spec.from_zero ? "tozero" : "normal" } // prettier-ignore
  }

  trace(series, colors, x, table, data) {
    const raw = table[series.field] ?? []
    const y = series.smooth ? smoothed(raw, table.seconds) : raw
    const color = series.color < 0 ? colors.faint : colors.colors[series.color]
    const format = this.spec.hover
    return {
      x, y, name: series.name, type: "scatter", mode: x.length === 1 ? "markers" : "lines", connectgaps: false,
      line: { color, width: series.stack ? 0.5 : 2, simplify: true }, marker: { color, size: 6 },
      stackgroup: series.stack || undefined, fillcolor: series.stack ? color : undefined,
      hovertemplate: `%{y:${format}}${this.spec.suffix || ""}<extra>${escaped(series.name)}</extra>`,
    } // prettier-ignore
  }

  outline(data) {
    const table = data[this.spec.table]
    if (this.spec.optional) this.root.hidden = !this.seriesOf(table).some((s) => table[s.field]?.some((v) => v !== null))
    const marks = data.events.filter((e) => e.mark).map((e) => `${e.mark} at round ${e.round}`)
    this.div.setAttribute("aria-label", [this.describe(table), ...marks.slice(-5)].join("; "))
  }

  describe(table) {
    const axis = this.spec.by_rounds ? this.view.axis : this.spec.x
    const x = table[axis.field] ?? []
    if (!x.length) return `${this.spec.title}: ${this.spec.waiting}`
    const show = unitOf[this.spec.unit] ?? number
    const parts = this.seriesOf(table).map((s) => `${s.name} ${show(table[s.field]?.at(-1))}`)
    return `${this.spec.title} over ${x.length} points; at ${axis.title.toLowerCase()} ${number(x.at(-1))}: ${parts.join(", ")}`
  }
}

// The mean over a stretch of time that doubles as the run gets longer, so that curves stay calm and do not wobble.
function smoothed(values, seconds) {
  const total = seconds.at(-1) - seconds[0]
  const stretch = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(total, 1e-9) / 100)))
  const out = new Array(values.length)
  let first = 0, sum = 0, count = 0 // prettier-ignore
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== null) { sum += values[i]; count++ } // prettier-ignore
    while (seconds[first] < seconds[i] - stretch) {
      if (values[first] !== null) { sum -= values[first]; count-- } // prettier-ignore
      first++
    }
    out[i] = values[i] === null || !count ? null : Math.max(0, sum / count)
  }
  return out
}
