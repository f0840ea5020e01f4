import { hash } from 'node:crypto'
import { html, type Markup } from './html.ts'
import { styleSheet } from './style.ts'

/** The look of the pages, as the operator configured it. */
export interface Branding {
  productName: string
  /** `#rrggbb`. */
  accentColor: string
}

/** A whole page with its Content-Security-Policy. */
export interface Page {
  html: string
  policy: string
}

export interface FrameOptions {
  /** URLs other than this service that its forms may lead to. */
  targets?: readonly string[]
  /** Leaves room for examples and tables; forms need little. */
  isWide?: boolean
}

/** Renders a page. */
export type Frame = (title: string, body: Markup, options?: FrameOptions) => Page

/** Makes the layout of all pages: it loads nothing, runs no script and forbids framing by anyone (S-09). */
export function pageFrame({ productName, accentColor }: Branding): Frame {
  const style = styleSheet(accentColor)
  const styleSource = `'sha256-${hash('sha256', style, 'base64')}'`
  const initial = [...productName][0]?.toUpperCase() ?? ''
  return (title, body, { targets = [], isWide = false } = {}) => {
    const { markup } = html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · ${productName}</title>
<style>${{ markup: style }}</style>
</head>
<body>
<main${isWide && html` class="wide"`}>
<p class="brand"><span aria-hidden="true">${initial}</span>${productName}</p>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`
    const forms = ["'self'", ...new Set(targets.map(formSource))].join(' ')
    const policy = `default-src 'none'; style-src ${styleSource}; form-action ${forms}; base-uri 'none'; frame-ancestors 'none'`
    return { html: markup, policy }
  }
}

/**
 * The `form-action` source of a URL. Chromium applies `form-action` to the redirects after a form submission too, so the
 * client's URL must be allowed or the user never gets back. Falls back to the scheme alone when the host cannot be
 * expressed. No URL can produce a source that ends the directive.
 */
export function formSource(address: string): string {
  const { protocol, origin, hostname } = new URL(address)
  return origin !== 'null' && /^[a-z0-9.-]+$/.test(hostname) ? origin : protocol
}
