/** The API of `plinth/testing`. */
import type { Definition } from '../definition/service.ts'
import { isDefinition } from '../definition/service.ts'
import { openTestApp } from './app.ts'
import { type CallerOptions, testCallers } from './callers.ts'
import { type TestClient, testClient } from './client.ts'
import { type CapturedMail, type CapturedWebhook, outbox, type Receive } from './outbox.ts'

export type { CallerOptions } from './callers.ts'
export type { JsonBody, TestClient, TestRequest, TestResponse } from './client.ts'
export type { CapturedMail, CapturedWebhook } from './outbox.ts'

const unitsMs = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 }
type Unit = keyof typeof unitsMs
/** A span of time: a number of milliseconds, or text such as `14 days`. */
export type Duration = number | `${number} ${Unit}` | `${number} ${Unit}s`

/** The clock of the service. Only `set` and `advance` move it. */
export interface TestClock {
  now: () => Date
  /** Moves the clock to a later time. Stops at each time at which background work is due, and runs the work. */
  set: (time: Date | string) => Promise<void>
  /** Works like `set`, but moves the clock forward by a span of time. */
  advance: (by: Duration) => Promise<void>
}

export interface TestServiceOptions {
  /** The time at which the clock starts; default: 2026-01-01T12:00:00Z. */
  now?: Date | string
  /** Returns the status with which a webhook's receiver responds; default: 204. */
  receive?: Receive
  /** The `fetch` function of jobs and schedules; by default, it always rejects. */
  fetch?: typeof globalThis.fetch
}

/** A service under test. `await using` closes it at the end of the block. */
export interface TestService<Claims extends object = object, Role extends string = string> extends AsyncDisposable {
  /**
   * Registers a client, and returns a `TestClient` that sends requests with its token. `claims` replaces the result of
   * the claims function. If it is omitted, that function computes the claims from the user and the labels.
   */
  as: (claims?: Claims | null, options?: CallerOptions<Role>) => Promise<TestClient>
  /** Sends requests without credentials. */
  anonymous: TestClient
  clock: TestClock
  /** Runs all background work that is due, such as reports; resolves once nothing is left to do. */
  settled: () => Promise<void>
  /** Runs all background work that is due; resolves with all calls to webhooks so far, oldest first. */
  webhooks: () => Promise<readonly CapturedWebhook[]>
  /** Runs all background work that is due; resolves with all mails so far, oldest first. */
  mails: () => Promise<readonly CapturedMail[]>
  /** The errors behind 5xx responses and in background work, oldest first. */
  errors: readonly unknown[]
  close: () => Promise<void>
}

const defaultStart = '2026-01-01T12:00:00.000Z'

/**
 * Starts a service in this process, with a new database in a temporary folder. It listens on no port, sends nothing,
 * and has no rate limits and no authorization server. Rejects if the definition is not the result of `service()`.
 */
export async function testService<Claims extends object, Role extends string>(
  definition: Definition<Claims, Role>,
  { now = defaultStart, receive = () => 204, fetch = noFetch }: TestServiceOptions = {},
): Promise<TestService<Claims, Role>> {
  if (!isDefinition(definition)) throw new TypeError('testService: the first argument must be the result of service()')
  let nowMs = msOf(now)
  const clock = () => nowMs
  const errors: unknown[] = []
  const causes = new Map<string, unknown>()
  const callers = testCallers()
  const sent = outbox(receive, clock)
  const onError = (error: unknown, requestId?: string) => {
    errors.push(error)
    if (requestId !== undefined) causes.set(requestId, error)
  }
  const service = await openTestApp({ definition, now: clock, callers, outbox: sent, fetch, onError })
  const { app, settle, nextDue, close } = service
  const clientWith = (token: string | null) => testClient({ app, token, causeOf: (id) => causes.get(id) })
  const moveTo = async (ms: number) => {
    if (!(ms >= nowMs)) throw new RangeError(`The clock cannot be moved back from ${new Date(nowMs).toISOString()}`)
    await settle()
    for (let at = await nextDue(); at !== null && at <= ms; at = await nextDue()) {
      nowMs = at
      await settle()
    }
    nowMs = ms
    return settle()
  }
  return {
    as: async (claims = null, options = {}) => clientWith(await callers.add(service, claims, options)),
    anonymous: clientWith(null),
    clock: {
      now: () => new Date(nowMs),
      set: async (time) => moveTo(msOf(time)),
      advance: async (by) => moveTo(nowMs + durationMs(by)),
    },
    settled: settle,
    webhooks: () => settle().then(() => [...sent.webhooks]),
    mails: () => settle().then(() => [...sent.mails]),
    errors,
    close,
    [Symbol.asyncDispose]: close,
  }
}

const noFetch: typeof globalThis.fetch = async (target) => {
  throw new Error(`A test must set the option fetch of testService before its code calls fetch(${String(target)})`)
}

/** Returns a time in ms since the epoch. */
function msOf(time: Date | string): number {
  const ms = new Date(time).getTime()
  if (Number.isNaN(ms)) throw new RangeError(`'${time}' is not a time; use a Date or text such as ${defaultStart}`)
  return ms
}

function durationMs(by: Duration): number {
  if (typeof by === 'number') return by
  const [, count, unit] = /^(\d+(?:\.\d+)?) (second|minute|hour|day)s?$/.exec(by) ?? []
  if (count === undefined) throw new RangeError(`'${by}' is not a duration; use milliseconds or text such as 14 days`)
  return Number(count) * unitsMs[unit as Unit]
}
