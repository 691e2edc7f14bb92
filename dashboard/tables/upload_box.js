// The page's half of an upload: choose or drop files, ask whether they may come, send them one by one, show how far it is.
// Several files become one table.
// Streamlit calls the default export again whenever the page is drawn; what goes on is kept by the element.

const boxes = new WeakMap()
const WINDOW = 3000 // milliseconds over which the rate is taken

export default function (component) {
  const { parentElement } = component
  let box = boxes.get(parentElement)
  if (!box) boxes.set(parentElement, (box = makeBox(parentElement)))
  box.draw(component)
  return () => {
    box.leave()
    boxes.delete(parentElement)
  }
}

function makeBox(root) {
  const find = selector => root.querySelector(selector)
  const zone = find(".zone"), input = find("input"), going = find(".going"), problem = find(".problem")
  let endings = [], tell = () => {}, request = null

  input.onchange = () => {
    take([...input.files])
    input.value = "" // or the same file could not be chosen twice
  }
  zone.ondragover = event => {
    event.preventDefault()
    zone.classList.add("over")
  }
  zone.ondragleave = () => zone.classList.remove("over")
  zone.ondrop = event => {
    event.preventDefault()
    zone.classList.remove("over")
    take([...event.dataTransfer.files])
  }
  find(".cancel").onclick = () => {
    request?.abort()
    idle()
    say("The upload was cancelled.")
    input.focus()
  }

  async function take(files) {
    fail("")
    if (request || !files.length) return
    const odd = files.find(file => !endings.some(ending => file.name.toLowerCase().endsWith("." + ending)))
    if (odd) return fail(`Expected a file that ends in ${listed(endings)}, got ${odd.name}.`)
    const empty = files.find(file => !file.size)
    if (empty) return fail(`${files.length > 1 ? empty.name : "This file"} is empty, or it is a folder. Choose another one.`)
    const name = files.length > 1 ? `${files.length} files` : files[0].name
    const size = files.reduce((sum, file) => sum + file.size, 0)
    const upload = { name, size, files, sent: 0, keys: [], show: meter(size) }
    request = new XMLHttpRequest()
    busy(upload)
    const own = request
    for (const file of files) {
      const refused = await mayCome(file)
      if (request !== own) return // cancelled meanwhile
      if (refused) return done(refused)
    }
    send(own, upload)
  }

  function send(own, upload) {
    const file = upload.files[upload.keys.length]
    own.open("POST", route({ name: file.name }))
    own.setRequestHeader("X-Shoal", "1")
    own.setRequestHeader("Content-Type", "application/octet-stream")
    own.upload.onprogress = event => {
      const figures = upload.show(upload.sent + event.loaded)
      find("progress").value = figures.fraction
      find(".figures").textContent = figures.text
    }
    own.onload = () => {
      const answer = read(own.status, own.responseText)
      if (!answer.key) return done(answer.problem)
      upload.keys.push(answer.key)
      upload.sent += file.size
      if (upload.keys.length === upload.files.length) return finish(upload)
      request = new XMLHttpRequest()
      send(request, upload)
    }
    own.onerror = () => done("The connection broke off, or the file changed while it was read. Upload it again.")
    own.send(file)
  }

  async function finish(upload) {
    const own = request
    const answer = upload.keys.length > 1 ? await together(upload.keys) : { key: upload.keys[0] }
    if (request !== own) return // cancelled meanwhile
    done(answer.problem)
    if (!answer.key) return
    say(`${upload.name} ${upload.files.length > 1 ? "have" : "has"} arrived.`)
    tell("uploaded", answer.key)
  }

  function busy(file) {
    find(".name").textContent = file.name
    find("progress").value = 0
    find("progress").setAttribute("aria-label", `Upload of ${file.name}`)
    find(".figures").textContent = "Starting"
    zone.hidden = true
    going.hidden = false
    say(`${file.name} is being uploaded.`)
    find(".cancel").focus()
    window.addEventListener("beforeunload", ask)
  }

  function idle() {
    request = null
    zone.hidden = false
    going.hidden = true
    window.removeEventListener("beforeunload", ask)
  }

  function done(text) {
    idle()
    fail(text)
  }

  function fail(text) {
    problem.hidden = !text
    problem.textContent = text || ""
  }

  function say(text) {
    find(".said").textContent = text
  }

  return {
    draw({ data, setTriggerValue }) {
      tell = setTriggerValue
      endings = data.endings
      input.accept = endings.map(ending => "." + ending).join(",")
      find(".label").textContent = data.label
      find(".hint").textContent = `One file, or several that are one table: ${listed(endings)}, up to ${amount(data.most)}`
      input.setAttribute("aria-label", `${data.label}. ${find(".hint").textContent}`)
      zone.classList.add("ready") // before, nobody would take what is chosen
    },
    leave() {
      request?.abort()
      idle()
    },
  }
}

// Before a reload or a closed tab ends an upload, the browser asks.
function ask(event) {
  event.preventDefault()
}

// A browser sends the whole file before it reads an answer, so a file that is too large is refused beforehand.
async function mayCome(file) {
  try {
    const answer = await fetch(route({ size: file.size }))
    return read(answer.status, await answer.text()).problem
  } catch {
    return "The dashboard does not answer. Is it still running?"
  }
}

// Files that have arrived become one table.
async function together(keys) {
  try {
    const headers = { "X-Shoal": "1", "Content-Type": "text/plain" }
    const answer = await fetch(new URL("api/upload/set", document.baseURI), { method: "POST", headers, body: keys.join("\n") })
    return read(answer.status, await answer.text())
  } catch {
    return { problem: "The dashboard does not answer. Is it still running?" }
  }
}

function route(parameters) {
  return new URL("api/upload?" + new URLSearchParams(parameters), document.baseURI)
}

function read(status, text) {
  if (status === 401) return { problem: "You are not logged in any more. Reload the page, log in and try again." }
  try {
    return JSON.parse(text)
  } catch {
    return { problem: status === 413
      ? "A proxy between here and the dashboard refused the file as too large (413)."
      : `The dashboard's answer was not understood (${status}). Try again.` }
  }
}

function meter(size) {
  const seen = [[performance.now(), 0]]
  return loaded => {
    const now = performance.now()
    seen.push([now, loaded])
    while (seen.length > 2 && now - seen[1][0] > WINDOW) seen.shift()
    const rate = (loaded - seen[0][1]) / Math.max(now - seen[0][0], 1) // bytes a millisecond
    const fraction = Math.min(loaded / size, 1)
    if (fraction === 1) return { fraction, text: `${amount(size)} sent, being saved` }
    const left = rate > 0 ? `, ${(rate / 1000).toFixed(rate < 10000 ? 1 : 0)} MB/s, ${duration((size - loaded) / rate / 1000)} left` : ""
    return { fraction, text: `${amount(loaded)} of ${amount(size)}${left}` }
  }
}

function amount(bytes) {
  if (bytes >= 1e10) return `${(bytes / 1e9).toFixed(1).replace(".0", "")} GB`
  return bytes < 1e5 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: bytes < 1e7 ? 1 : 0 })} MB`
}

function duration(seconds) {
  if (seconds < 60) return `about ${Math.max(1, Math.round(seconds))} s`
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min` : `about ${(seconds / 3600).toFixed(1)} h`
}

function listed(names) {
  return names.length < 2 ? names.join("") : names.slice(0, -1).join(", ") + " or " + names.at(-1)
}
