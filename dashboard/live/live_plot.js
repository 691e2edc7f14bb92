// Panels of a live run, drawn from one stream of server-sent events. Which panels and fields there are is said by
// Python (live_plot.py); nothing here knows what a loss is. Text from the run is only ever set as textContent.

const DRAW = 200 // milliseconds between two drawings
const KEPT = { events: 1000, log: 500 }
const LOADING = "Loading the curves"
const RELEASE = 1000 // milliseconds that a stream outlives its last panel: a page that is drawn again takes it over
const streams = (globalThis.shoalStreams ??= new Map())
const views = new WeakMap()

// ------------------------------------------------------------------ the stream

class Stream {
  constructor(url) {
    Object.assign(this, { url, views: new Set(), source: null, lost: false, ended: false, pause: 1000, data: empty() })
  }

  open() {
    if (this.source) return
    const source = (this.source = new EventSource(this.url))
    source.addEventListener("snapshot", (e) => this.take({ ...empty(), loaded: true, ...JSON.parse(e.data) }))
    source.addEventListener("update", (e) => this.take(added(this.data, JSON.parse(e.data))))
    source.addEventListener("end", () => {
      this.ended = true
      this.close()
      this.changed()
    })
    source.onerror = () => {
      this.lost = true
      this.changed()
      if (source.readyState === EventSource.CLOSED) this.retry() // a proxy's error page, say: browsers give up on those
    }
  }

  take(data) {
    this.data = data
    this.lost = false
    this.pause = 1000
    this.changed()
  }

  changed() {
    for (const view of this.views) view.schedule()
  }

  retry() {
    this.close()
    this.timer = setTimeout(() => this.open(), this.pause)
    this.pause = Math.min(2 * this.pause, 30000)
  }

  close() {
    clearTimeout(this.timer)
    this.source?.close()
    this.source = null
  }

  join(view, live) {
    clearTimeout(this.release)
    this.views.add(view)
    if (live) this.ended = false // it was resumed
    if (!this.ended) this.open()
    view.schedule()
  }

  leave(view) {
    this.views.delete(view)
    if (this.views.size) return
    this.release = setTimeout(() => {
      this.close()
      streams.delete(this.url)
    }, RELEASE)
  }
}

const empty = () => ({ head: null, rounds: {}, hosts: {}, workers: [], events: [], lanes: [], log: [] })

function added(data, news) {
  const next = { ...data }
  for (const [part, value] of Object.entries(news)) {
    if (part === "rounds" || part === "hosts") {
      next[part] = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, (data[part][k] ?? []).concat(v)]))
    } else next[part] = part in KEPT ? data[part].concat(value).slice(-KEPT[part]) : value
  }
  return next
}

function streamOf(url) {
  if (!streams.has(url)) streams.set(url, new Stream(url))
  return streams.get(url)
}

// ------------------------------------------------------------------ small things; others are in panel_tools.js

const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`)
const bytes = (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(2)} GB` : `${Math.round(value / 1e6)} MB`)
const unitOf = { percent, number, rate: (v) => `${number(v, 3)} B/s` }
const clock = (at) => new Date(1000 * at).toLocaleTimeString("en-GB")

function span(seconds) {
  if (seconds === null) return ""
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  const minutes = Math.floor(seconds / 60)
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0")
  return minutes < 60 ? `${minutes}:${rest} min` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`
}

// ------------------------------------------------------------------ panels

class Panel {
  constructor(view, spec) {
    Object.assign(this, { view, spec, visible: true, dirty: true })
    this.root = el("section", `shoal-panel shoal-${spec.kind}`)
    this.root.dataset.panel = spec.key
    if (spec.wide) this.root.classList.add("shoal-wide")
    if (spec.title) {
      this.header = el("header")
      const title = el("h3", "", spec.title)
      this.header.append(title)
      if (spec.hint) this.header.append(el("span", "shoal-hint", spec.hint))
      this.tools = el("span", "shoal-tools")
      this.header.append(this.tools)
      this.root.append(this.header)
      this.root.setAttribute("aria-label", spec.title)
    }
  }

  destroy() {}
  outline() {}
  retheme() {
    this.dirty = true
  }
}

class Tiles extends Panel {
  constructor(view, spec) {
    super(view, spec)
    this.cells = {}
    for (const tile of spec.tiles) {
      const box = el("div", "shoal-tile")
      box.dataset.tile = tile.key
      if (tile.wide) box.classList.add("shoal-double")
      box.title = tile.help
      const cell = { value: el("div", "shoal-value", "–"), note: el("div", "shoal-note", "\u00a0"), bar: null }
      box.append(el("div", "shoal-label", tile.label), cell.value, cell.note)
      if (tile.bar) {
        cell.bar = el("div", "shoal-progress")
        cell.bar.append(el("i"))
        cell.bar.setAttribute("role", "progressbar")
        cell.bar.setAttribute("aria-label", tile.label)
        box.append(cell.bar)
      }
      if (tile.key === "state") cell.value.setAttribute("aria-live", "polite")
      this.cells[tile.key] = cell
      this.root.append(box)
    }
    this.problem = el("div", "shoal-problem")
    this.problem.setAttribute("role", "status")
    this.root.append(this.problem)
  }

  draw({ head }, stream) {
    for (const [key, cell] of Object.entries(this.cells)) {
      const [value, note, share] = head?.tiles[key] ?? ["–", "", null]
      put(cell.value, value)
      put(cell.note, (key === "state" && stream.lost ? "no connection to the dashboard" : note) || "\u00a0")
      cell.note.title = note
      if (cell.bar) {
        const known = share !== null && share !== undefined
        cell.bar.style.visibility = known ? "" : "hidden"
        if (known) {
          cell.bar.firstChild.style.width = `${100 * share}%`
          cell.bar.setAttribute("aria-valuenow", Math.round(100 * share))
        }
      }
    }
    if (head) this.root.dataset.state = head.state
    put(this.problem, head?.problem ?? "")
  }
}

class Plot extends Panel {
  constructor(view, spec) {
    super(view, spec)
    this.visible = false // until the browser says otherwise: charts that nobody sees are not drawn
    this.holder = el("div", "shoal-plot")
    this.holder.style.height = `${spec.height}px`
    this.div = el("div")
    this.div.setAttribute("role", "img")
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
    const axis = this.spec.table === "rounds" ? this.view.axis : this.spec.x
    const x = table[axis.field] ?? []
    const known = this.spec.series.filter((s) => table[s.field]?.some((v) => v !== null))
    const waits = !x.length
    put(this.note, waits ? (data.loaded ? this.spec.waiting : LOADING) : known.length ? "" : this.spec.unknown)
    this.note.hidden = !waits && known.length > 0
    this.div.style.visibility = this.note.hidden ? "" : "hidden"
    this.outline(data)
    if (waits || !known.length || !this.holder.clientWidth) return
    const colors = theme(this.root)
    const traces = this.spec.series.map((s) => this.trace(s, colors, x, table, data))
    const many = this.spec.series.length > 1
    await this.plot(traces, this.layout(colors, this.xAxis(axis), this.yAxis(), {
      margin: { t: many ? 30 : 8 },
      layout: { hovermode: "x unified", showlegend: many,
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1.01, yanchor: "bottom", font: { size: 11 } } },
    })) // prettier-ignore
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
    this.div.setAttribute("aria-label", this.describe(data[this.spec.table]))
  }

  describe(table) {
    const axis = this.spec.table === "rounds" ? this.view.axis : this.spec.x
    const x = table[axis.field] ?? []
    if (!x.length) return `${this.spec.title}: ${this.spec.waiting}`
    const show = unitOf[this.spec.unit] ?? number
    const parts = this.spec.series.map((s) => `${s.name} ${show(table[s.field]?.at(-1))}`)
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

// What a mark looks like, and how far above or below its lane it is: cause, loss and recovery come within moments. The
// last ones are drawn on top.
const MARKS = {
  quiet: ["line-ns-open", 0],
  plain: ["circle", 0],
  warn: ["triangle-down", -0.28],
  person: ["diamond", -0.28],
  good: ["triangle-up", 0.28],
  bad: ["x", 0],
}

class Timeline extends Plot {
  outline({ events, lanes }) {
    const workers = new Set(lanes.map((lane) => lane.rank)).size
    const lost = events.filter((e) => e.kind === "lost").length
    const newest = `${lost} losses among ${workers} workers; the newest event: ${events.at(-1)?.text}`
    this.div.setAttribute("aria-label", `${this.spec.title}: ${events.length ? newest : this.spec.waiting}`)
  }

  async draw(data) {
    const { lanes, events } = data
    const ranks = [...new Set(lanes.map((lane) => lane.rank))].sort((a, b) => a - b)
    this.note.hidden = events.length > 0
    put(this.note, this.spec.waiting)
    const height = 74 + 30 * (ranks.length + 1)
    this.holder.style.height = `${Math.max(height, this.spec.height)}px`
    if (!events.length || !this.holder.clientWidth) return
    const colors = theme(this.root)
    const now = Math.max(data.rounds.seconds?.at(-1) ?? 0, data.hosts.seconds?.at(-1) ?? 0, events.at(-1).seconds ?? 0)
    const place = (rank) => (ranks.includes(rank) ? ranks.indexOf(rank) + 1 : 0)
    const bars = (state, line) => {
      const found = lanes.filter((lane) => lane.state === state)
      return { type: "scatter", mode: "lines", hoverinfo: "skip", line, showlegend: false,
        x: found.flatMap((lane) => [lane.from, lane.to ?? now, null]),
        y: found.flatMap((lane) => [place(lane.rank), place(lane.rank), null]) } // prettier-ignore
    }
    const inks = { bad: colors.red, warn: colors.colors[4], good: colors.colors[2], person: colors.colors[6], plain: colors.text, quiet: colors.text }
    const marks = Object.entries(MARKS).map(([tone, [symbol, off]]) => {
      const found = events.filter((e) => e.tone === tone && e.seconds !== null)
      return { type: "scatter", mode: "markers", showlegend: false, x: found.map((e) => e.seconds),
        y: found.map((e) => place(e.rank) + (place(e.rank) ? off : 0)), hovertext: found.map((e) => wrapped(`${span(e.seconds)}: ${e.text} ${e.note}`)),
        hoverinfo: "text", marker: { symbol, size: tone === "quiet" ? 6 : 10, color: inks[tone],
          opacity: tone === "quiet" ? 0.5 : 1, line: { width: tone === "quiet" ? 1 : 1.5, color: tone === "quiet" ? colors.text : colors.background } } } // prettier-ignore
    })
    this.outline(data)
    await this.plot(
      [bars("here", { color: colors.colors[0], width: 9 }), bars("lost", { color: colors.red, width: 3, dash: "dot" }), ...marks],
      this.layout(colors,
        { title: { text: "Seconds of training", standoff: 8, font: { size: 11 } }, nticks: 9, showgrid: true },
        { tickvals: [0, ...ranks.map(place)], ticktext: ["Run", ...ranks.map((rank) => `Worker ${rank}`)], showgrid: false,
          range: [ranks.length + 0.6, -0.6], autorange: false, fixedrange: true },
        { margin: { l: 74 }, layout: { hovermode: "closest" } }),
    ) // prettier-ignore
  }
}

const wrapped = (text) => escaped(text).replace(/(.{50}\S*)\s/g, "$1<br>")

const LANES = ["Worker", "Process", "State", "CPU, last minute", "CPU", "Waits", "Memory", "Rows", "Behind"]

class Lanes extends Panel {
  constructor(view, spec) {
    super(view, spec)
    this.rows = new Map()
    const scroll = el("div", "shoal-scroll")
    scroll.tabIndex = 0
    const table = el("table")
    const head = el("tr")
    for (const name of LANES) {
      const cell = el("th", "", name)
      cell.scope = "col"
      cell.title = spec.help[name] ?? ""
      head.append(cell)
    }
    const top = el("thead")
    top.append(head)
    this.body = el("tbody")
    table.append(top, this.body)
    scroll.append(table)
    this.note = el("div", "shoal-empty")
    this.root.append(scroll, this.note)
  }

  row(rank) {
    if (!this.rows.has(rank)) {
      const row = el("tr")
      const cells = LANES.map(() => row.appendChild(el("td")))
      row.dataset.rank = rank
      this.rows.set(rank, { row, cells })
      const after = [...this.rows.keys()].filter((known) => known > rank).sort((a, b) => a - b)[0]
      this.body.insertBefore(row, after === undefined ? null : this.rows.get(after).row)
    }
    return this.rows.get(rank)
  }

  draw({ workers, lanes, head }) {
    const samples = new Map(workers.map((w) => [w.rank, w]))
    const standing = new Map(lanes.map((lane) => [lane.rank, lane])) // the newest of each rank
    const ranks = new Set([...samples.keys(), ...standing.keys()])
    for (const [rank, { row }] of this.rows) if (!ranks.has(rank)) { row.remove(); this.rows.delete(rank) } // prettier-ignore
    for (const rank of ranks) this.fill(rank, samples.get(rank), standing.get(rank), head)
    put(this.note, this.spec.waiting)
    this.note.hidden = ranks.size > 0
  }

  fill(rank, sample, lane, head) {
    const { row, cells } = this.row(rank)
    const lost = lane?.state === "lost" && lane.to === null
    const here = lane ? lane.state === "here" && lane.to === null : true
    const fresh = sample && (!lane || sample.seconds >= lane.from) // not that of the process before
    const working = sample?.state === "working" ? "Working" : "Waiting"
    const state = head?.ended ? "Ended" : lost ? "Lost, being replaced" : !here ? "Left" : fresh ? working : "Just came"
    row.className = lost ? "is-lost" : !here || head?.ended ? "is-gone" : ""
    put(cells[0], `Worker ${rank}`)
    put(cells[1], sample && fresh ? String(sample.pid) : "–")
    this.state(cells[2], state, lost ? "bad" : !here || head?.ended ? "quiet" : "good")
    this.spark(cells[3], sample?.history ?? [])
    this.bar(cells[4], here && fresh ? sample.cpu : null)
    this.bar(cells[5], here && fresh ? sample.wait : null)
    put(cells[6], here && fresh ? bytes(sample.memory) : "–")
    put(cells[7], sample ? sample.rows.toLocaleString("en") : "–")
    put(cells[8], sample ? number(sample.staleness, 3) : "–")
  }

  state(cell, text, tone) {
    cell.firstChild ?? cell.append(el("span", "shoal-pill"))
    put(cell.firstChild, text)
    cell.firstChild.dataset.tone = tone
  }

  bar(cell, share) {
    if (!cell.firstChild) {
      const bar = el("div", "shoal-bar")
      bar.append(el("i"))
      cell.append(bar, el("span"))
    }
    cell.firstChild.firstChild.style.width = `${Math.min(100, 100 * (share ?? 0))}%`
    put(cell.lastChild, percent(share))
  }

  spark(cell, history) {
    if (!cell.firstChild) {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
      svg.setAttribute("viewBox", "0 0 118 24")
      svg.setAttribute("aria-hidden", "true")
      svg.append(document.createElementNS("http://www.w3.org/2000/svg", "polyline"))
      cell.append(svg)
    }
    const points = history.map((v, i) => `${118 - 2 * (history.length - 1 - i)},${(22.5 - 21 * Math.min(1, v ?? 0)).toFixed(1)}`)
    cell.firstChild.firstChild.setAttribute("points", points.join(" "))
  }
}

class List extends Panel {
  // A list with the newest first; `rows` makes its lines, and it is drawn anew only when these change.
  constructor(view, spec) {
    super(view, spec)
    this.list = el("ol", "shoal-list")
    this.list.tabIndex = 0
    this.list.style.height = `${spec.height}px`
    this.note = el("div", "shoal-empty")
    this.root.append(this.list, this.note)
  }

  show(items, mark) {
    if (mark === this.mark) return
    this.mark = mark
    const top = this.list.scrollTop
    this.list.replaceChildren(...items.map((item) => this.line(item)))
    this.list.scrollTop = top
    put(this.note, this.spec.waiting)
    this.note.hidden = items.length > 0
  }

  again() {
    this.dirty = true
    this.view.schedule()
  }
}

class Events extends List {
  constructor(view, spec) {
    super(view, spec)
    const label = el("label", "shoal-check")
    this.all = el("input")
    this.all.type = "checkbox"
    this.all.onchange = () => this.again()
    label.append(this.all, " Checkpoints too")
    this.tools.append(label)
  }

  draw({ events }) {
    const shown = events.filter((e) => this.all.checked || e.tone !== "quiet").slice(-200).reverse() // prettier-ignore
    this.show(shown, `${this.all.checked} ${shown[0]?.number} ${shown.length}`)
  }

  line(event) {
    const line = el("li")
    line.dataset.kind = event.kind
    line.dataset.tone = event.tone
    const text = el("span", "shoal-text", event.text)
    if (event.note) text.append(" ", el("em", "", event.note))
    line.append(el("time", "", span(event.seconds)), el("b", "shoal-mark"), text)
    return line
  }
}

class Log extends List {
  constructor(view, spec) {
    super(view, spec)
    this.search = el("input")
    this.search.type = "search"
    this.search.placeholder = "Search the log"
    this.search.setAttribute("aria-label", "Search the log")
    this.search.oninput = () => this.again()
    this.level = el("select")
    this.level.setAttribute("aria-label", "Lines to show")
    for (const [value, text] of [["", "All lines"], ["warning", "Warnings and errors"], ["error", "Errors"]]) {
      this.level.append(Object.assign(el("option", "", text), { value }))
    } // prettier-ignore
    this.level.onchange = () => this.again()
    this.tools.append(this.search, this.level)
  }

  draw({ log }) {
    const wanted = this.search.value.toLowerCase()
    const levels = { "": null, warning: ["warning", "error"], error: ["error"] }[this.level.value]
    const shown = log.filter((l) => (!levels || levels.includes(l.level)) && l.text.toLowerCase().includes(wanted)).reverse()
    this.show(shown, `${wanted} ${this.level.value} ${shown[0]?.number} ${shown.length}`)
    if (log.length) put(this.note, "No line of the log is like that.")
  }

  line(entry) {
    const line = el("li")
    line.dataset.tone = { error: "bad", warning: "warn" }[entry.level] ?? "plain"
    line.append(el("time", "", clock(entry.at)), el("span", "shoal-text", entry.text))
    return line
  }
}

class Switch extends Panel {
  // Which axis the charts of this view have; the choice is the same for all charts and lasts for the visit.
  constructor(view, spec) {
    super(view, spec)
    this.root.setAttribute("role", "radiogroup")
    this.root.setAttribute("aria-label", spec.label)
    this.root.append(el("span", "shoal-label", spec.label))
    for (const axis of view.axes) {
      const label = el("label")
      const input = el("input")
      Object.assign(input, { type: "radio", name: `axis-${view.id}`, value: axis.field, checked: axis === view.axis })
      input.onchange = () => view.choose(axis)
      label.append(input, el("span", "", axis.name))
      this.root.append(label)
    }
  }

  draw() {}
}

const KINDS = { tiles: Tiles, chart: Chart, timeline: Timeline, lanes: Lanes, events: Events, log: Log, switch: Switch }

// ------------------------------------------------------------------ one mounted component

class View {
  constructor(parent, settings) {
    this.id = Math.random().toString(36).slice(2)
    this.settings = settings
    this.axes = settings.axes
    const kept = sessionStorage.getItem("shoal-axis")
    this.axis = this.axes.find((axis) => axis.field === kept) ?? this.axes[0]
    this.root = el("div", "shoal-live")
    parent.append(this.root)
    this.drawn = -Infinity
    this.cost = 0
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const panel = this.panels.find((p) => p.root === entry.target)
        if (panel) panel.visible = entry.isIntersecting
      }
      this.schedule()
    }, { rootMargin: "150px" }) // prettier-ignore
    this.panels = settings.panels.map((spec) => new KINDS[spec.kind](this, spec))
    for (const panel of this.panels) {
      this.root.append(panel.root)
      if (panel instanceof Plot) this.seen.observe(panel.root)
    }
    this.stream = streamOf(settings.url)
  }

  settle(settings, tell) {
    Object.assign(this, { settings, tell })
    for (const panel of this.panels) panel.retheme()
    this.stream.join(this, settings.live)
  }

  choose(axis) {
    this.axis = axis
    sessionStorage.setItem("shoal-axis", axis.field)
    for (const panel of this.panels) panel.dirty = true
    this.schedule()
  }

  schedule() {
    if (this.waits) return
    // Never more than a quarter of the time, whatever the browser is made to draw.
    const pause = Math.max(0, this.drawn + Math.max(DRAW, Math.min(3 * this.cost, 1000)) - performance.now())
    this.waits = setTimeout(() => {
      this.frame = requestAnimationFrame(() => this.draw())
    }, pause)
  }

  async draw() {
    const began = performance.now()
    const { data } = this.stream
    const news = data !== this.data
    this.data = data
    for (const panel of this.panels) {
      panel.dirty ||= news || this.stream.lost !== this.lost
      if (panel.dirty && panel.visible && !panel.held) {
        panel.dirty = false
        try {
          await panel.draw(data, this.stream)
        } catch (error) {
          panel.dirty = true // drawn again with the next news
        }
      } else if (news && !panel.visible) panel.outline(data)
    }
    this.lost = this.stream.lost
    this.drawn = performance.now()
    this.cost = this.drawn - began
    this.waits = null
    this.compare()
    if (this.stream.data !== data || this.panels.some((p) => p.dirty && p.visible && !p.held)) this.schedule()
  }

  // The buttons around this are Streamlit's, for the state that the page was drawn in: when that is over, draw it again.
  compare() {
    const state = this.data.head?.state
    if (!this.tell || !state || state === this.settings.state) {
      clearTimeout(this.change)
      this.change = null
    } else if (!this.change) {
      this.change = setTimeout(() => {
        this.change = null
        if (this.stream.data.head?.state !== this.settings.state) this.tell(this.stream.data.head.state)
      }, 300)
    }
  }

  destroy() {
    clearTimeout(this.waits)
    clearTimeout(this.change)
    cancelAnimationFrame(this.frame)
    this.waits = true
    this.seen.disconnect()
    for (const panel of this.panels) panel.destroy()
    this.stream.leave(this)
    this.root.remove()
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  let view = views.get(parentElement)
  if (view && view.settings.url !== data.url) {
    view.destroy()
    view = null
  }
  if (!view) views.set(parentElement, (view = new View(parentElement, data)))
  view.settle(data, data.tells ? (state) => setTriggerValue("state", state) : null)
  return () => {
    views.delete(parentElement)
    view.destroy()
  }
}
