// One mounted component: it draws its panels from the stream, only those that are seen, and never too often.

const DRAW = 200 // milliseconds between two drawings
const views = new WeakMap()
const KINDS = { tiles: Tiles, chart: Chart, spread: Spread, timeline: Timeline, lanes: Lanes, holders: Holders, events: Events, log: Log, switch: Switch }

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

  settle(settings, tell, say) {
    Object.assign(this, { settings, tell, say })
    for (const panel of this.panels) panel.retheme()
    this.stream.join(this, settings.live)
  }

  choose(axis) {
    this.axis = axis
    sessionStorage.setItem("shoal-axis", axis.field)
    for (const panel of this.panels) panel.dirty = true
    this.schedule()
  }

  showPart(name) {
    this.part = name
    for (const panel of this.panels) if (panel instanceof Spread) panel.zoomOut() // of other numbers
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
          if (panel.failed !== String(error)) console.error((panel.failed = String(error))) // once, not five times a second
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
  view.settle(data, data.tells ? (state) => setTriggerValue("state", state) : null, setTriggerValue)
  return () => {
    views.delete(parentElement)
    view.destroy()
  }
}
