// What our own components share: elements, numbers as text, the theme's colours, plotly.js. It is put before each of
// them. Text from files is only ever set as textContent.

function el(tag, className = "", text = "") {
  const made = document.createElement(tag)
  if (className) made.className = className
  if (text) made.textContent = text
  return made
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text
}

function number(value, digits = 5) {
  if (value === null || value === undefined) return "–"
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return value.toExponential(2)
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 })
}

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")

function theme(element) {
  const style = getComputedStyle(element)
  const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise
  return {
    text: read("--st-text-color", "#31333f"),
    background: read("--st-background-color", "#ffffff"),
    border: read("--st-border-color", "#d6d6d9"),
    font: read("--st-font", "sans-serif"),
    colors: read("--st-chart-categorical-colors", "#0b8378,#d55e00,#3987c9,#cc79a7").split(","),
    faint: "rgba(128, 128, 128, 0.2)", // on white and on black
    red: read("--st-chart-categorical-colors", "").split(",")[8] || "#d1495b",
  }
}

let plotly = null
function loadPlotly(url) {
  plotly ??= new Promise((resolve, reject) => {
    if (globalThis.Plotly) return resolve(globalThis.Plotly)
    const script = document.createElement("script")
    script.src = new URL(url, document.baseURI)
    script.onload = () => resolve(globalThis.Plotly)
    script.onerror = () => {
      plotly = null // the next drawing tries again
      script.remove()
      reject(new Error("plotly.js could not be loaded"))
    }
    document.head.append(script)
  })
  return plotly
}
