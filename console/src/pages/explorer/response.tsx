import { Button } from '../../ui/button.tsx'
import { Code } from '../../ui/code.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { bytesText, durationText, prettyText } from '../../ui/format.tsx'
import { Badge, toneOf } from '../../ui/page.tsx'
import { saveFile } from '../../ui/save.ts'
import type { Received } from './send.ts'

/** Shows a response: status, timing, headers and body. */
export function ResponseView({ received }: { received: Received }) {
  const { status, statusText, headers, headersMs, bodyMs, size, isCut, text, blob } = received
  const body = text === null ? null : prettyText(text)
  return (
    <section className="card stack" aria-label="Response">
      <div className="row" role="status">
        <h2>Response</h2>
        <Badge tone={toneOf(status)}>
          {status} {statusText}
        </Badge>
        <span className="quiet">
          {durationText(headersMs)} to the headers, {durationText(bodyMs)} in all, {bytesText(size)}
        </span>
      </div>
      <details open>
        <summary>Headers ({headers.length})</summary>
        <Code label="Response headers">{headers.map(([name, value]) => `${name}: ${value}`).join('\n')}</Code>
      </details>
      {isCut && <p className="notice warn">The body was longer, or the request was stopped: this is its beginning.</p>}
      {body !== null && body !== '' && <Code label="Response body">{body}</Code>}
      {size === 0 && <p className="quiet">The response has no body.</p>}
      {size > 0 && (
        <div className="row">
          {body !== null && <CopyButton text={body} label="Copy the body" />}
          <Button isCompact onPress={() => saveFile(blob, 'response')}>
            Save the body
          </Button>
        </div>
      )}
    </section>
  )
}
