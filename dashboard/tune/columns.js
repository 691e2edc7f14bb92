// Which columns the model may use, and how much the error rises without each.

class Columns {
  static SHOWN = 200 // at a time

  constructor(view) {
    this.view = view
    const { columns } = view.settings
    const { root, tools } = card("Columns", "and how much the error rises without each")
    this.root = root
    root.classList.add("tune-ticks")
    this.search = el("input", "tune-search")
    Object.assign(this.search, { type: "search", placeholder: "Find a column" })
    this.search.setAttribute("aria-label", "Find a column")
    this.search.oninput = () => this.draw()
    this.order = button("By importance", () => {
      this.ranked = !this.ranked
      this.order.setAttribute("aria-pressed", String(this.ranked))
      this.draw()
    })
    this.order.setAttribute("aria-pressed", "false")
    tools.append(this.order, button("All", () => this.tick([])), button("None", () => this.tick(columns)))
    this.list = el("ul", "tune-columns")
    this.list.setAttribute("aria-label", "Columns to predict from")
    this.items = new Map() // made when they are first shown: a page of ten thousand boxes is slow
    this.rest = el("div", "tune-hint")
    const explained = el("div", "tune-hint", "Importance: how much the mean squared error of cross-validation rises, in percent, when the column is left out with all its levels and the model is refitted at this alpha.") // prettier-ignore
    if (columns.length > 12) root.append(this.search)
    root.append(this.list, this.rest, explained)
    root.dataset.part = "columns"
  }

  item(name) {
    const line = el("li")
    const label = el("label")
    const box = el("input")
    box.type = "checkbox"
    box.onchange = () => {
      const out = new Set(this.view.state.out)
      out[box.checked ? "delete" : "add"](name)
      this.view.change({ out })
    }
    box.setAttribute("aria-label", name)
    label.append(box, named(el("span"), name))
    const bar = el("span", "tune-worth")
    bar.append(el("i"))
    const value = el("span", "tune-figure", "")
    line.append(label, bar, value)
    return { line, box, bar: bar.firstChild, value }
  }

  shown(name) {
    if (!this.items.has(name)) this.items.set(name, this.item(name))
    return this.items.get(name)
  }

  tick(out) {
    const { view } = this
    view.change({ out: new Set(out.filter((name) => name !== view.state.predict)) })
  }

  draw() {
    const { state, worth, kept, settings } = this.view
    const wanted = this.search.value.toLowerCase()
    const names = settings.columns.filter((name) => name !== state.predict && name.toLowerCase().includes(wanted))
    const risen = (name) => worth?.rises[name] ?? -Infinity
    if (this.ranked && worth) names.sort((a, b) => risen(b) - risen(a))
    const most = Object.values(worth?.rises ?? {}).reduce((a, b) => Math.max(a, b), 1e-300)
    const found = names.length
    names.length = Math.min(found, Columns.SHOWN)
    put(this.rest, found > names.length ? `and ${(found - names.length).toLocaleString("en")} more: find them by a part of their name` : "") // prettier-ignore
    this.rest.hidden = found <= names.length
    for (const name of names) {
      const { line, box, bar, value } = this.shown(name)
      const off = state.out.has(name)
      box.checked = !off
      line.classList.toggle("is-off", off)
      line.classList.toggle("is-zero", !off && !!kept && !kept.has(name))
      const known = worth && name in worth.rises && !off
      bar.style.width = known ? `${Math.max(0, (100 * worth.rises[name]) / most)}%` : "0"
      put(value, known ? signed(worth.rises[name] / worth.error) : off ? "left out" : "…")
    }
    const lines = names.map((name) => this.items.get(name).line)
    if (lines.length !== this.list.children.length || lines.some((line, i) => line !== this.list.children[i])) this.list.replaceChildren(...lines) // prettier-ignore
    this.list.classList.toggle("is-stale", !!worth && this.view.worthFor !== this.view.asked)
  }
}

function signed(rise) {
  if (!Number.isFinite(rise)) return "–"
  if (rise === 0) return "0 %"
  return `${rise > 0 ? "+" : "−"}${Math.abs(100 * rise) < 0.01 ? "<0.01" : number(Math.abs(100 * rise), 3)} %`
}
