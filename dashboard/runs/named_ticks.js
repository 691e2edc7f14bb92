// The column of ticks that Streamlit puts before a table has no heading. Somebody who only hears the table is told one.

const UNNAMED = '[data-testid="stDataFrame"] th[role="columnheader"]:empty'

export default function ({ data }) {
  const name = () => {
    for (const head of document.querySelectorAll(UNNAMED)) head.textContent = data.name
  }
  const watch = new MutationObserver(name) // headings come and go as the table is scrolled
  watch.observe(document.body, { childList: true, subtree: true })
  name()
  return () => watch.disconnect()
}
