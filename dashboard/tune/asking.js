// Questions to the route of the Tune page, one at a time and the newest first.

class Asker {
  // One question in flight; a newer one takes the place of the one that waits.
  constructor(answered, failed) {
    Object.assign(this, { answered, failed, flying: null, next: null })
  }

  ask(url) {
    if (this.flying && !this.flying.patient) {
      this.next = url
      return
    }
    this.flying?.stop.abort() // it only waited for a curve that nobody looks at any more
    this.send(url)
  }

  async send(url) {
    const own = (this.flying = { stop: new AbortController(), patient: url.includes("wait=1") })
    this.next = null
    try {
      const answer = await ask(url, own.stop.signal)
      if (this.flying === own) this.answered(answer, this.next !== null)
    } catch (error) {
      if (this.flying === own) this.failed(error.message, error.mortal)
    }
    if (this.flying !== own) return
    this.flying = null
    if (this.next) this.send(this.next)
  }

  close() {
    this.flying?.stop.abort()
    this.flying = this.next = null
  }
}

async function ask(url, signal) {
  let response
  try {
    response = await fetch(new URL(url, document.baseURI), { signal })
  } catch {
    throw new Error("The dashboard does not answer. Check that it is still running; the question is asked again automatically.")
  }
  const answer = await response.json().catch(() => ({ problem: "The dashboard's answer cannot be read. Reload the page." }))
  if (answer.problem) throw Object.assign(new Error(answer.problem), { mortal: true })
  return answer
}

function unpacked(text, width) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0))
  const flat = new Float32Array(bytes.buffer)
  return Array.from({ length: flat.length / width }, (_, i) => flat.subarray(i * width, (i + 1) * width))
}
