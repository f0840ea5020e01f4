import { claimDue, type Due } from '../queue/claim.ts'
import { nextDue } from '../queue/owners.ts'
import { postpone, reclaimExpired, release } from '../queue/release.ts'
import { ranks, roomFor, slotsOf } from '../queue/shares.ts'
import { callReceiver, signedCalls } from './build-request.ts'
import type { Dispatch, DispatchOptions } from './dispatch-options.ts'
import type { Tried } from './outcome.ts'
import { isEventReadable, unreadable, whyStopped } from './readers.ts'
import { recordTogether } from './record-attempts.ts'

const idlePollMs = 1_000
const reclaimEveryMs = 5_000
const maxRecorded = 256
const gatherMs = 5
const errorPauseMs = 1_000
const busyPauseMs = 10
const faultPauseMs = 60_000

interface State extends DispatchOptions {
  /** Deliveries that are claimed but whose outcomes are not recorded yet. Only those in `calling` occupy slots. */
  claims: Map<string, Due>
  calling: Set<Due>
  ended: Tried[]
  recording: boolean
  /** Timer that delays recording, so that outcomes of more calls are recorded in the same transaction. */
  gathering: NodeJS.Timeout | undefined
  isPolling: boolean
  /**
   * Makes the next poll claim deliveries without first checking whether any are due, because finished calls have just
   * freed slots.
   */
  eager: boolean
  again: boolean
  stopped: boolean
  /** True once the remaining claims are released; nothing is recorded from then on. */
  over: boolean
  timer: NodeJS.Timeout | undefined
  reclaimAt: number
  waiters: (() => void)[]
  signed: ReturnType<typeof signedCalls>
}

/**
 * Sends deliveries: claims due deliveries, makes each signed call outside any transaction, and records finished calls
 * together in one transaction. If the process crashes after a call but before recording it, the attempt is repeated
 * (at-least-once delivery).
 */
export function startDispatch(options: DispatchOptions): Dispatch {
  const state: State = {
    ...options,
    claims: new Map(),
    calling: new Set(),
    ended: [],
    recording: false,
    gathering: undefined,
    isPolling: false,
    eager: false,
    again: false,
    stopped: false,
    over: false,
    timer: undefined,
    reclaimAt: 0,
    waiters: [],
    signed: signedCalls(options),
  }
  wake(state)
  return {
    wake: () => wake(state),
    settled: () =>
      new Promise((resolve) => {
        state.waiters.push(resolve)
        wake(state)
      }),
    stop: (graceMs) => stop(state, graceMs),
  }
}

function wake(state: State): void {
  if (state.stopped) return
  if (state.isPolling) state.again = true
  else void poll(state)
}

async function poll(state: State): Promise<void> {
  state.isPolling = true
  state.again = false
  clearTimeout(state.timer)
  const pauseMs = await fill(state).catch((error) => {
    state.onError(error)
    return errorPauseMs
  })
  state.isPolling = false
  if (state.stopped) return resolveWaiters(state)
  if (state.again) return void poll(state)
  state.timer = setTimeout(() => wake(state), pauseMs)
  if (pauseMs > 0) resolveWaiters(state)
}

/** Claims due deliveries for the free slots and sends them. Returns how long to wait before claiming again, in ms. */
async function fill(state: State): Promise<number> {
  const { db, concurrency, claims, calling } = state
  if (performance.now() >= state.reclaimAt) {
    state.reclaimAt = performance.now() + reclaimEveryMs
    await reclaimExpired(db, state.now())
  }
  const slots = slotsOf(concurrency, calling)
  // If recording falls behind, claim nothing until it catches up.
  if (claims.size >= 2 * concurrency || ranks.every((rank) => roomFor(slots, rank) === 0)) return idlePollMs
  if (!state.eager) {
    const waitMs = ((await nextDue(db, slots)) ?? Number.POSITIVE_INFINITY) - state.now()
    if (waitMs > 0) return Math.min(waitMs, idlePollMs)
  }
  state.eager = false
  const claimed = await claimDue({ ...state, slots }, state.now())
  if (state.stopped) return release(db, claimed, state.now())
  for (const due of claimed) {
    claims.set(keyOf(due), due)
    calling.add(due)
    void send(state, due)
  }
  // Deliveries that are due but could not be claimed are being handled by another node.
  return claimed.length > 0 ? 0 : busyPauseMs
}

const keyOf = ({ id, fence }: Due) => `${id}/${fence}`

async function send(state: State, due: Due): Promise<void> {
  const startedAt = new Date(state.now()).toISOString()
  try {
    const unsent = whyStopped(due) ?? ((await isEventReadable(state, due)) ? null : unreadable)
    const at = { due, startedAt }
    state.ended.push(unsent ? { ...at, outcome: null, unsent } : { ...at, outcome: await callReceiver(state, due) })
  } catch (error) {
    return postponeUnsent(state, due, error)
  } finally {
    state.calling.delete(due)
  }
  recordSoon(state)
}

/**
 * Waits a few milliseconds, so that calls that end at about the same time are recorded in one commit, which costs
 * little more than recording one call. Records at once if no other call is in flight.
 */
function recordSoon(state: State): void {
  if (state.recording) return
  if (state.ended.length === state.claims.size) void recordEnded(state)
  else state.gathering ??= setTimeout(() => void recordEnded(state), gatherMs)
}

/**
 * Postpones a delivery after an internal error, such as a secret that cannot be decrypted, because the error says
 * nothing about the endpoint.
 */
async function postponeUnsent(state: State, due: Due, error: unknown): Promise<void> {
  state.onError(error)
  if (!state.over) await postpone(state.db, due, state.now() + faultPauseMs).catch(state.onError)
  state.claims.delete(keyOf(due))
  wake(state)
  resolveWaiters(state)
}

async function recordEnded(state: State): Promise<void> {
  clearTimeout(state.gathering)
  state.gathering = undefined
  if (state.over) return
  state.recording = true
  const batch = state.ended.splice(0, maxRecorded)
  const recorded = recordTogether(state, batch).catch(state.onError)
  // With group commit, the next claim joins the transaction that records the calls.
  state.eager = true
  wake(state)
  await recorded
  for (const { due } of batch) state.claims.delete(keyOf(due))
  wake(state)
  state.recording = false
  if (state.ended.length > 0) recordSoon(state)
  resolveWaiters(state)
}

function resolveWaiters(state: State): void {
  if (state.claims.size > 0 || state.isPolling || state.again) return
  for (const resolve of state.waiters.splice(0)) resolve()
}

async function stop(state: State, graceMs: number): Promise<void> {
  state.stopped = true
  clearTimeout(state.timer)
  const grace = new Promise<void>((resolve) => setTimeout(resolve, graceMs).unref())
  const ended = new Promise<void>((resolve) => {
    state.waiters.push(resolve)
    state.again = false
    resolveWaiters(state)
  })
  await Promise.race([ended, grace])
  state.over = true
  await release(state.db, [...state.claims.values()], state.now()).catch(state.onError)
}
