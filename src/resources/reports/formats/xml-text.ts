/** Markup, and what no XML 1.0 document can hold even escaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const special = /[&<>\u0000-\u001f\ud800-\udfff\ufffe\uffff]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const forbidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

/** Text for an element; what XML cannot hold becomes U+FFFD. */
export function xmlText(text: string): string {
  if (!special.test(text)) return text
  const held = text.toWellFormed().replace(forbidden, '\ufffd')
  return held.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('\r', '&#13;')
}
