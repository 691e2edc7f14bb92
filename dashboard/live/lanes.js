// The workers of a run: when each was there, and what each does now.

const bytes = (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(2)} GB` : `${Math.round(value / 1e6)} MB`)

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

const LANES = ["Worker", "Process", "State", "CPU, last minute", "CPU", "Waits", "Memory", "Rows", "Behind"]
const LINKS = ["Node", "Answers in", "Silent for", "Received, sent"] // of workers on other machines

class Lanes extends Panel {
  constructor(view, spec) {
    super(view, spec)
    this.rows = new Map()
    const scroll = el("div", "shoal-scroll")
    scroll.tabIndex = 0
    const table = el("table")
    const head = el("tr")
    this.links = []
    for (const name of [...LANES, ...LINKS]) {
      const cell = el("th", "", name)
      cell.scope = "col"
      cell.title = spec.help[name] ?? ""
      if (LINKS.includes(name)) this.links.push(cell)
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
      const cells = [...LANES, ...LINKS].map(() => row.appendChild(el("td")))
      this.links.push(...cells.slice(LANES.length))
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
    const apart = workers.some((worker) => worker.link)
    for (const cell of this.links) cell.hidden = !apart
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
    const slow = here && !head?.ended && !lost ? lane?.slow : 0
    this.state(cells[2], slow ? `${state}, slowed ${number(slow, 3)} times` : state, lost ? "bad" : !here || head?.ended ? "quiet" : slow ? "warn" : "good") // prettier-ignore
    this.freeing(cells[2], rank, slow)
    this.spark(cells[3], sample?.history ?? [])
    this.bar(cells[4], here && fresh ? sample.cpu : null)
    this.bar(cells[5], here && fresh ? sample.wait : null)
    put(cells[6], here && fresh ? bytes(sample.memory) : "–")
    put(cells[7], sample ? sample.rows.toLocaleString("en") : "–")
    put(cells[8], sample ? number(sample.staleness, 3) : "–")
    const link = here && fresh ? sample.link : null
    put(cells[9], link ? link.node : "–")
    put(cells[10], link?.took ? `${number(link.took * 1000, 3)} ms` : "–")
    put(cells[11], link ? `${number(link.silent, 2)} s` : "–")
    put(cells[12], link ? `${bytes(link.received)}, ${bytes(link.sent)}` : "–")
  }

  // A slowed worker is freed where one sees that it is slow.
  freeing(cell, rank, slow) {
    let button = cell.querySelector("button")
    if (!slow) return button?.remove()
    if (button) return
    button = el("button", "shoal-small", "Free it")
    button.type = "button"
    button.title = `Let worker ${rank} compute at its own speed again`
    button.setAttribute("aria-label", `Free it: worker ${rank}`)
    button.onclick = () => {
      button.disabled = true
      this.view.say("free", rank)
    }
    cell.append(" ", button)
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
