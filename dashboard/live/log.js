// The events and the log of a run: lists with the newest first. Their text is only ever set as textContent.

const clock = (at) => new Date(1000 * at).toLocaleTimeString("en-GB")

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
    if (log.length) put(this.note, "No line of the log matches.")
  }

  line(entry) {
    const line = el("li")
    line.dataset.tone = { error: "bad", warning: "warn" }[entry.level] ?? "plain"
    line.append(el("time", "", clock(entry.at)), el("span", "shoal-text", entry.text))
    return line
  }
}
