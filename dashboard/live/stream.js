// The stream of a run: one connection for all panels of a page, taken up again when it is lost.

const KEPT = { events: 1000, log: 500 }
const RELEASE = 1000 // milliseconds that a stream outlives its last panel: a page that is drawn again takes it over
const streams = (globalThis.shoalStreams ??= new Map())

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

const empty = () => ({ head: null, rounds: {}, hosts: {}, rates: {}, own: {}, spread: [], workers: [], events: [], lanes: [], shards: [], log: [] })

function added(data, news) {
  const next = { ...data }
  for (const [part, value] of Object.entries(news)) {
    if (["rounds", "hosts", "rates"].includes(part)) {
      next[part] = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, (data[part][k] ?? []).concat(v)]))
    } else next[part] = part in KEPT ? newest(data[part].concat(value), KEPT[part]) : value
  }
  return next
}

// Checkpoints go first: a long run has thousands, and few workers that came or were lost.
function newest(list, most) {
  let over = list.length - most
  return over > 0 ? list.filter((item) => item.tone !== "quiet" || --over < 0).slice(-most) : list
}

function streamOf(url) {
  if (!streams.has(url)) streams.set(url, new Stream(url))
  return streams.get(url)
}
