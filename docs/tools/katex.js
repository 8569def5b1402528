// Typesets formulas: reads lines of JSON {"tex", "display"}, answers each with a line of JSON {"html"} or {"error"}.
// usage: node katex.js FOLDER-OF-KATEX
const katex = require(process.argv[2]);
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { tex, display } = JSON.parse(line);
  try {
    const html = katex.renderToString(tex, { displayMode: display, throwOnError: true, strict: "error" });
    console.log(JSON.stringify({ html }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
});
