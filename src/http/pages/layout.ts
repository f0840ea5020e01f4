import { hash } from 'node:crypto'
import { html, type Markup } from './html.ts'
import { styleSheet } from './style.ts'

/** How the pages look, as the operator has set it. */
export interface Branding {
  productName: string
  /** `#rrggbb`. */
  accentColor: string
}

/** A whole page and the Content-Security-Policy that belongs to it. */
export interface Page {
  html: string
  policy: string
}

export interface FrameOptions {
  /** Addresses that its forms lead to besides our own. */
  targets?: readonly string[]
  /** Room for examples and tables, where a form needs little. */
  isWide?: boolean
}

/** Makes a page. */
export type Frame = (title: string, body: Markup, options?: FrameOptions) => Page

/** Makes the frame of all pages: nothing is loaded, no script runs, nobody may put them into a frame of theirs (S-09). */
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
 * How `form-action` names an address. Chromium holds the redirects that follow a form to it, too, so that the client's
 * address must be allowed, or the person never gets back. A scheme alone where a host cannot be said: what stands here
 * cannot end the directive, whatever the address is.
 */
export function formSource(address: string): string {
  const { protocol, origin, hostname } = new URL(address)
  return origin !== 'null' && /^[a-z0-9.-]+$/.test(hostname) ? origin : protocol
}
