// The parameter shards of a run: which has how many parameters, and how it is; nothing where one process has all.

const HELD = ["Shard", "Process", "State", "Parameters", "Share", "Pieces"]
const HOLDING = { here: ["Here", "good"], starting: ["Starting", "warn"], gone: ["Gone, not replaced", "bad"], server: ["The run's own process", "good"] } // prettier-ignore

class Holders extends Panel {
  constructor(view, spec) {
    super(view, spec)
    const scroll = el("div", "shoal-scroll")
    scroll.tabIndex = 0
    const table = el("table")
    const head = el("tr")
    for (const name of HELD) {
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
    this.root.append(scroll)
    this.root.hidden = true
  }

  draw({ shards, head }) {
    this.root.hidden = !shards.length
    const all = shards.reduce((sum, shard) => sum + shard.parameters, 0)
    while (this.body.rows.length > shards.length) this.body.lastChild.remove()
    shards.forEach((shard, i) => this.fill(this.row(i), shard, all, head))
  }

  row(i) {
    while (this.body.rows.length <= i) {
      const row = el("tr")
      HELD.forEach(() => row.append(el("td")))
      row.cells[2].append(el("span", "shoal-pill"))
      this.body.append(row)
    }
    return this.body.rows[i]
  }

  fill({ cells }, shard, all, head) {
    const [state, tone] = head?.ended ? ["Ended", "quiet"] : (HOLDING[shard.state] ?? [shard.state, "quiet"])
    put(cells[0], `Shard ${shard.shard}`)
    put(cells[1], shard.pid === null ? "–" : String(shard.pid))
    put(cells[2].firstChild, state)
    cells[2].firstChild.dataset.tone = tone
    put(cells[3], shard.parameters.toLocaleString("en"))
    put(cells[4], percent(all ? shard.parameters / all : 0))
    put(cells[5], shard.pieces.toLocaleString("en"))
  }
}
