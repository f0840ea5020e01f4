import { claimDue, type Due, isStopped } from '../queue/claim.ts'
import { nextDue } from '../queue/owners.ts'
import { postpone, reclaimExpired, release } from '../queue/release.ts'
import { ranks, roomFor, slotsOf } from '../queue/shares.ts'
import { callReceiver, signedCalls } from './build-request.ts'
import type { Dispatch, DispatchOptions } from './dispatch-options.ts'
import type { Tried } from './outcome.ts'
import { recordTogether } from './record-attempts.ts'

const idlePollMs = 1_000
const lapsedLookMs = 5_000
const maxRecorded = 256
const gatherMs = 5
const errorPauseMs = 1_000
const busyPauseMs = 10
const faultPauseMs = 60_000

interface State extends DispatchOptions {
  /** Claimed but not recorded yet; of these, the calls that have not ended occupy slots. */
  flying: Map<string, Due>
  calling: Set<Due>
  ended: Tried[]
  recording: boolean
  /** Delays recording so that more calls can end and share the transaction. */
  gathering: NodeJS.Timeout | undefined
  looking: boolean
  /** Claims without checking first whether anything is due: calls being recorded free their slots. */
  eager: boolean
  again: boolean
  stopped: boolean
  /** True once the remaining claims were released: nothing is recorded any more. */
  over: boolean
  timer: NodeJS.Timeout | undefined
  lapsedLookAt: number
  waiters: (() => void)[]
  signed: ReturnType<typeof signedCalls>
}

/**
 * Sends deliveries: claims due ones, makes each signed call outside any transaction, and records finished calls together in
 * one transaction. A crash in between repeats the attempt (at-least-once).
 */
export function startDispatch(options: DispatchOptions): Dispatch {
  const state: State = {
    ...options,
    flying: new Map(),
    calling: new Set(),
    ended: [],
    recording: false,
    gathering: undefined,
    looking: false,
    eager: false,
    again: false,
    stopped: false,
    over: false,
    timer: undefined,
    lapsedLookAt: 0,
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
  if (state.looking) state.again = true
  else void look(state)
}

async function look(state: State): Promise<void> {
  state.looking = true
  state.again = false
  clearTimeout(state.timer)
  const pauseMs = await fill(state).catch((error) => {
    state.onError(error)
    return errorPauseMs
  })
  state.looking = false
  if (state.stopped) return tellWaiters(state)
  if (state.again) return void look(state)
  state.timer = setTimeout(() => wake(state), pauseMs)
  if (pauseMs > 0) tellWaiters(state)
}

/** Claims as many deliveries as there are free slots; returns how long to wait before claiming again, in ms. */
async function fill(state: State): Promise<number> {
  const { db, hands, flying, calling } = state
  if (performance.now() >= state.lapsedLookAt) {
    state.lapsedLookAt = performance.now() + lapsedLookMs
    await reclaimExpired(db, state.now())
  }
  const slots = slotsOf(hands, calling)
  // If recording is slow, claim no more than can be recorded.
  if (flying.size >= 2 * hands || ranks.every((rank) => roomFor(slots, rank) === 0)) return idlePollMs
  if (!state.eager) {
    const waitMs = ((await nextDue(db, slots)) ?? Number.POSITIVE_INFINITY) - state.now()
    if (waitMs > 0) return Math.min(waitMs, idlePollMs)
  }
  state.eager = false
  const claimed = await claimDue({ ...state, slots }, state.now())
  if (state.stopped) return release(db, claimed, state.now())
  for (const due of claimed) {
    flying.set(keyOf(due), due)
    calling.add(due)
    void send(state, due)
  }
  // Another node is working on what is due and was not claimed.
  return claimed.length > 0 ? 0 : busyPauseMs
}

const keyOf = ({ id, fence }: Due) => `${id}/${fence}`

async function send(state: State, due: Due): Promise<void> {
  const startedAt = new Date(state.now()).toISOString()
  try {
    const outcome = isStopped(due) ? null : await callReceiver(state, due)
    state.ended.push({ due, startedAt, outcome })
  } catch (error) {
    return notSent(state, due, error)
  } finally {
    state.calling.delete(due)
  }
  recordSoon(state)
}

/**
 * Calls that end within a moment share one commit, whose cost hardly grows with them; if no other call is in flight, records
 * at once.
 */
function recordSoon(state: State): void {
  if (state.recording) return
  if (state.ended.length === state.flying.size) void recordEnded(state)
  else state.gathering ??= setTimeout(() => void recordEnded(state), gatherMs)
}

/** A fault of the service itself, such as a secret that cannot be decrypted, says nothing about the endpoint. */
async function notSent(state: State, due: Due, error: unknown): Promise<void> {
  state.onError(error)
  if (!state.over) await postpone(state.db, due, state.now() + faultPauseMs).catch(state.onError)
  state.flying.delete(keyOf(due))
  wake(state)
  tellWaiters(state)
}

async function recordEnded(state: State): Promise<void> {
  clearTimeout(state.gathering)
  state.gathering = undefined
  if (state.over) return
  state.recording = true
  const batch = state.ended.splice(0, maxRecorded)
  const recorded = recordTogether(state, batch).catch(state.onError)
  // With group commit, the next claim shares the transaction that records.
  state.eager = true
  wake(state)
  await recorded
  for (const { due } of batch) state.flying.delete(keyOf(due))
  wake(state)
  state.recording = false
  if (state.ended.length > 0) recordSoon(state)
  tellWaiters(state)
}

function tellWaiters(state: State): void {
  if (state.flying.size > 0 || state.looking || state.again) return
  for (const resolve of state.waiters.splice(0)) resolve()
}

async function stop(state: State, graceMs: number): Promise<void> {
  state.stopped = true
  clearTimeout(state.timer)
  const grace = new Promise<void>((resolve) => setTimeout(resolve, graceMs).unref())
  const ended = new Promise<void>((resolve) => {
    state.waiters.push(resolve)
    state.again = false
    tellWaiters(state)
  })
  await Promise.race([ended, grace])
  state.over = true
  await release(state.db, [...state.flying.values()], state.now()).catch(state.onError)
}
