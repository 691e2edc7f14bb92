// How sure the coefficients are: intervals, worked out when somebody asks for them.

class Doubt {
  constructor(view) {
    this.view = view
    const { root, tools } = card("How sure is this?", "intervals of the coefficients")
    this.root = root
    root.classList.add("tune-wide")
    root.dataset.part = "doubt"
    this.compute = button("Work out intervals", () => this.ask())
    tools.append(this.compute)
    this.box = el("div")
    this.box.setAttribute("aria-live", "polite")
    this.box.append(el("div", "tune-hint", "By formula, and by refitting the model to 500 resamples of the rows. It takes a second or so, and reads no file.")) // prettier-ignore
    root.append(this.box)
  }

  async ask() {
    const { view } = this
    const { asked } = view
    this.compute.disabled = true
    this.box.replaceChildren(el("div", "tune-hint", "Refitting the model to 500 resamples …"))
    try {
      const found = await ask(`${view.settings.url}/doubt?${view.exact()}`)
      this.draw(found)
      this.made = asked
    } catch (error) {
      this.box.replaceChildren(el("div", "tune-problem", error.message))
    }
    this.compute.disabled = false
    this.mark()
  }

  mark() {
    const old = this.made !== undefined && this.made !== this.view.asked
    this.box.classList.toggle("is-stale", old)
    put(this.compute, old ? "Work them out for this model" : "Work out intervals")
  }

  draw(found) {
    const { view } = this
    const { ways, selection, terms } = found
    const titles = ways.map((way) => `${way.title}: ${Math.round(100 * way.confidence)} % interval`)
    const head = cells(el("tr"), "th", ["Column", ways[0].of, ...titles, ...(selection ? ["Kept in"] : [])])
    const strength = (j) => Math.abs(view.terms[j] === terms[j] ? view.point.weights[j] : 0)
    const all = terms.map((_, j) => j).sort((a, b) => strength(b) - strength(a))
    const used = all.filter(strength)
    const order = this.showsAll || !used.length ? all : used
    const rows = order.map((j) => {
      const row = el("tr")
      row.append(termed(el("td"), terms[j], view.terms[j] === terms[j] ? view.owners[j] : []), el("td", "tune-figure", number(ways[0].estimate[j])))
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
    const hint = el("div", "tune-hint", "Estimates and intervals in the file's units; those in bold do not hold 0. ")
    if (used.length && used.length < all.length) {
      const others = all.length - used.length
      hint.append(button(this.showsAll ? `Without the ${others} of weight 0` : `Show the ${others} of weight 0 too`, () => {
        this.showsAll = !this.showsAll
        this.draw(found)
      })) // prettier-ignore
    }
    this.box.replaceChildren(hint, holder, words)
  }
}
