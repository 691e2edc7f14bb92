// How the numbers of one part of a model are distributed, now and earlier: lines of a histogram each, the newest on top.

class Spread extends Plot {
  constructor(view, spec) {
    super(view, spec)
    this.root.hidden = true // until there is something: small models have none
    this.part = el("select")
    this.part.setAttribute("aria-label", `Part of the model, ${spec.title.toLowerCase()}`)
    this.part.onchange = () => view.showPart(this.part.value)
    this.tools.prepend(this.part)
  }

  outline({ spread }) {
    this.root.hidden = !spread.length
    const shown = this.histogram(spread.at(-1))
    const range = shown ? `from ${number(shown.low)} to ${number(shown.high)}` : this.spec.waiting
    this.div.setAttribute("aria-label", `${this.spec.title}: ${this.name(spread) ?? ""} ${range}`)
  }

  name(spread) {
    const names = (spread.at(-1)?.parts ?? []).map((part) => part.name)
    return names.includes(this.view.part) ? this.view.part : names[0]
  }

  histogram(look, name = look && this.name([look])) {
    return look?.parts.find((part) => part.name === name)?.[this.spec.of]
  }

  options(spread) {
    const parts = spread.at(-1).parts
    const known = parts.map((part) => `${part.name} (${part.size.toLocaleString("en")})`)
    if (known.join() !== [...this.part.options].map((option) => option.text).join()) {
      this.part.replaceChildren(...parts.map((part, n) => new Option(known[n], part.name)))
    }
    this.part.value = this.name(spread)
    this.part.hidden = parts.length < 2
  }

  async draw({ spread }) {
    this.outline({ spread })
    if (!spread.length || !this.holder.clientWidth) return
    this.options(spread)
    const name = this.name(spread)
    const looks = spread.filter((look) => this.histogram(look, name))
    put(this.note, looks.length ? "" : this.spec.waiting)
    this.note.hidden = looks.length > 0
    this.div.style.visibility = looks.length ? "" : "hidden"
    if (!looks.length) return
    const colors = theme(this.root)
    const traces = looks.map((look, n) => this.line(this.histogram(look, name), look, colors, n === looks.length - 1, n / looks.length))
    await this.plot(traces, this.layout(colors,
      { title: { text: this.spec.axis, standoff: 8, font: { size: 11 } }, nticks: 7, exponentformat: "power" },
      { title: { text: "Density", standoff: 4, font: { size: 11 } }, rangemode: "tozero", showticklabels: false, nticks: 5 },
      { margin: { t: 30, l: 34 }, layout: { hovermode: "closest", showlegend: true,
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1.01, yanchor: "bottom", font: { size: 11 } } } },
    )) // prettier-ignore
  }

  // Bins of different looks have different widths, so heights are densities.
  line({ low, high, counts }, { epoch }, colors, newest, age) {
    const width = (high - low) / counts.length
    const total = counts.reduce((sum, count) => sum + count, 0)
    const edges = counts.map((_, n) => low + n * width)
    const color = newest ? colors.colors[0] : colors.text
    return {
      x: [...edges, high], y: [...counts, counts.at(-1)].map((count) => count / total / width),
      customdata: [...counts, counts.at(-1)].map((count, n) => [count / total, number(low + Math.min(n, counts.length - 1) * width), number(low + Math.min(n + 1, counts.length) * width)]),
      name: `epoch ${number(epoch, 3)}`, type: "scatter", mode: "lines", opacity: newest ? 1 : 0.25 + 0.35 * age,
      line: { color, width: newest ? 2 : 1.2, shape: "hv" }, fill: newest ? "tozeroy" : undefined,
      hovertemplate: `%{customdata[0]:.1%} from %{customdata[1]} to %{customdata[2]}<extra>epoch ${number(epoch, 3)}</extra>`,
    } // prettier-ignore
  }
}
