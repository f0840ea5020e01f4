import { Code } from '../../ui/code.tsx'
import { CopyButton } from '../../ui/copy.tsx'

const command = [
  `export PLINTH_CLIENT_ID=… PLINTH_CLIENT_SECRET=…`,
  `npx plinth webhooks listen --base-url ${location.origin} --events '*'`,
].join('\n')

/** Explains how to receive events on a local machine. */
export function TryReceiver() {
  return (
    <details className="card">
      <summary>A receiver to try webhooks with</summary>
      <div className="stack tight">
        <p>
          This command registers a webhook for a client, prints a line for each delivery after it has verified its
          signature, and removes the webhook when it ends. Add <code>--forward http://localhost:3000/hook</code> to pass
          the deliveries on to your program. The webhook then appears in this list, where you can send tests to it.
        </p>
        <Code label="Command">{command}</Code>
        <div className="row">
          <CopyButton text={command} />
        </div>
        <p className="quiet small">
          The receiver listens on the loopback address of the machine that runs it. So it must be the machine of the
          service, and the service must allow such addresses, as it does in development. The client needs the scopes
          webhooks:read and webhooks:write, and the read scopes of the events.
        </p>
      </div>
    </details>
  )
}
