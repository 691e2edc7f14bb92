// What all panels of a live run share, the tiles above them, and the choice of their axis.

function span(seconds) {
  if (seconds === null) return ""
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  const minutes = Math.floor(seconds / 60)
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0")
  return minutes < 60 ? `${minutes}:${rest} min` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`
}

class Panel {
  constructor(view, spec, tag = "section") {
    Object.assign(this, { view, spec, visible: true, dirty: true })
    this.root = el(tag, `shoal-panel shoal-${spec.kind}`)
    this.root.dataset.panel = spec.key
    if (spec.wide) this.root.classList.add("shoal-wide")
    if (spec.title) {
      this.header = el("header")
      const title = el("h2", "", spec.title)
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

class Switch extends Panel {
  // Which axis the charts of this view have; the choice is the same for all charts and lasts for the visit.
  constructor(view, spec) {
    super(view, spec, "div")
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
