const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Text that is already HTML; any other value is escaped when it is inserted into a page. */
export interface Markup {
  readonly markup: string
}

type Part = string | number | Markup | readonly Markup[] | undefined | false

/** Escapes text for HTML content and quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] as string)
}

/** Template tag for HTML. Escapes every value that is not `Markup`; inserts nothing for `undefined` and `false`. */
export function html(texts: TemplateStringsArray, ...parts: Part[]): Markup {
  return { markup: texts.map((text, at) => text + render(parts[at])).join('') }
}

function render(part: Part): string {
  if (part === undefined || part === false) return ''
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part))
  return 'markup' in part ? part.markup : part.map(({ markup }) => markup).join('\n')
}
