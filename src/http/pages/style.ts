/** Returns the relative luminance of a `#rrggbb` color (WCAG 2.2). */
function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(color.slice(at, at + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns black or white, whichever is more readable on the color; the contrast ratio is always at least 4.5:1. */
export function textOn(color: string): '#000000' | '#ffffff' {
  const light = luminance(color)
  return 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 ? '#ffffff' : '#000000'
}

/**
 * Returns the style sheet for all pages: light and dark mode, for screens at least 320 pixels wide. The accent color is
 * used only as a background; `textOn` selects the color of the text on it.
 */
export const styleSheet = (accent: string) => `
:root { color-scheme: light dark; --accent: ${accent}; --on-accent: ${textOn(accent)}; --ground: #f3f4f6; --card: #ffffff;
  --text: #14171c; --quiet: #555d69; --line: #8a93a0; --soft: #dfe3e8; --wrong: #a3161c; --wrong-ground: #fdecec }
@media (prefers-color-scheme: dark) { :root { --ground: #101317; --card: #1a1e24; --text: #eef1f5; --quiet: #a8b1bd;
  --line: #77818e; --soft: #2c323a; --wrong: #ff9d9d; --wrong-ground: #3a1a1d } }
*, ::before, ::after { box-sizing: border-box }
html { font: 100%/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif;
  -webkit-text-size-adjust: 100% }
body { margin: 0; min-height: 100vh; min-height: 100dvh; display: grid; grid-template-columns: minmax(0, 1fr); place-items: center; padding: 1.5rem 1rem;
  background: var(--ground); color: var(--text) }
main { width: 100%; max-width: 26rem; padding: 2rem; background: var(--card); border: 1px solid var(--soft);
  border-radius: 1rem; box-shadow: 0 1px 2px rgb(0 0 0 / 6%), 0 12px 32px rgb(0 0 0 / 8%); overflow-wrap: anywhere }
.brand { display: flex; align-items: center; gap: .625rem; margin: 0 0 1.75rem; font-weight: 600 }
.brand span { display: grid; place-items: center; flex: none; width: 2rem; height: 2rem; border-radius: .5rem;
  background: var(--accent); color: var(--on-accent); font-weight: 700 }
h1 { margin: 0 0 .375rem; font-size: 1.5rem; line-height: 1.25; letter-spacing: -.01em; font-weight: 650 }
main.wide { max-width: 46rem }
a { color: inherit; text-decoration-thickness: 1px; text-underline-offset: .2em } a:hover { text-decoration-thickness: 2px }
h2 { margin: 1.75rem 0 .375rem; font-size: 1.0625rem; line-height: 1.3; font-weight: 650 }
code, pre { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace }
pre { margin: 0 0 1rem; padding: 1rem; overflow-x: auto; overflow-wrap: normal; background: var(--ground); border-radius: .5rem }
table { width: 100%; margin: 0 0 1rem; border-collapse: collapse; font-size: .9375rem }
th, td { padding: .5rem .75rem .5rem 0; text-align: left; vertical-align: top; border-top: 1px solid var(--soft) }
thead th { white-space: nowrap; border-top: 0; font-weight: 600; color: var(--quiet) }
nav.back { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 1.75rem 0 0; padding-top: 1rem; font-size: .9375rem; border-top: 1px solid var(--soft) }
p { margin: 0 0 1rem } .lead { color: var(--quiet); margin-bottom: 1.5rem } strong { font-weight: 600; color: var(--text) }
form { margin: 0 } label { display: block; margin: 0 0 .375rem; font-weight: 550; font-size: .9375rem }
input { display: block; width: 100%; min-height: 2.875rem; margin: 0 0 1.125rem; padding: .5rem .75rem; font: inherit;
  color: inherit; background: transparent; border: 1px solid var(--line); border-radius: .5rem }
input[readonly] { color: var(--quiet); border-color: var(--soft); background: var(--ground) }
input[aria-invalid=true] { border-color: var(--wrong) }
.hint { margin: -.75rem 0 1.125rem; font-size: .875rem; color: var(--quiet) }
button { display: block; width: 100%; min-height: 2.875rem; margin: 0; padding: .5rem 1rem; font: inherit; font-weight: 600;
  color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: .5rem; cursor: pointer }
button:hover { filter: brightness(1.08) } button + button, form + form { margin-top: .75rem }
button.second { color: var(--text); background: transparent; border-color: var(--line) }
button.second:hover { background: var(--ground); filter: none }
:focus-visible { outline: 2px solid var(--text); outline-offset: 2px }
.alert { margin: 0 0 1.25rem; padding: .75rem 1rem; color: var(--wrong); background: var(--wrong-ground); border-radius: .5rem }
ul.scopes { list-style: none; margin: 0 0 1.5rem; padding: 0; border: 1px solid var(--soft); border-radius: .75rem }
ul.scopes li { padding: .75rem 1rem } ul.scopes li + li { border-top: 1px solid var(--soft) }
.small { font-size: .875rem; color: var(--quiet); margin: 1.25rem 0 0 }
dl { margin: 1.5rem 0 0; padding: 1rem; font-size: .875rem; background: var(--ground); border-radius: .5rem }
dt { color: var(--quiet) } dd { margin: 0 } dd + dt { margin-top: .75rem }
@media (max-width: 30rem) { body { padding: 0; place-items: start stretch; background: var(--card) }
  main { max-width: none; padding: 1.5rem 1.25rem; border: 0; border-radius: 0; box-shadow: none } }
@media (forced-colors: active) { button, main, .brand span { border: 1px solid } }
`
