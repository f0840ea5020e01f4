import { giveBack } from './give-back.ts'
import type { Parts } from './parts.ts'
import { lineIsFull, placeIn } from './throttle.ts'
import { isNotFound, type Way } from './way.ts'

/** Last step: on to the next policy, now or in turn; a call that finds no place gives back what it has used. */
export function goOn(parts: Parts, way: Way): void {
  const { monotonic, lines } = parts
  const { request, reply, done } = way
  const { line } = way.account
  const atMs = monotonic()
  const place = line === null ? 'free' : placeIn(line, atMs)
  if (line === null || place === 'free') done()
  else if (place === 'full') {
    giveBack(parts, way, reply)
    done(isNotFound(request) ? undefined : lineIsFull())
  } else {
    const leave = lines.wait(line, place.dueMs, () => {
      reply.raw.off('close', leave)
      reply.header('server-timing', `throttle;dur=${Math.max(0, Math.round(monotonic() - atMs))}`)
      done()
    })
    // Whoever has hung up makes room for those behind.
    reply.raw.once('close', leave)
  }
}
