import { Problem } from '../http/problems/problem.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'

/** The last run of an inspection, as stored for all nodes. */
interface Stored<Result> {
  status: 'running' | 'completed' | 'failed'
  node: string
  startedAt: string
  /** If the run has not finished by this time, its process is assumed to have ended. */
  leaseUntil: string
  finishedAt?: string
  error?: string
  result?: Result
}

/** The last run of an inspection, as returned by the API. */
export interface InspectionView<Result> extends Partial<Omit<Stored<Result>, 'status' | 'leaseUntil'>> {
  status: 'never' | Stored<Result>['status']
}

export interface InspectionOptions<Input, Result> {
  db: Database
  /** Identifies the inspection in the database. */
  name: string
  /** The name of this node. */
  node: string
  now: () => number
  /** Runs the inspection; rejects if it could not be completed. */
  run: (input: Input, signal: AbortSignal) => Promise<Result>
  /** Called with the error if a run fails without being aborted, or if its state cannot be stored. */
  onError: (error: unknown) => void
}

/** The exclusive right to run an inspection. `text` is the stored state, which is replaced only if it is unchanged. */
interface Claim<Result> {
  state: Stored<Result>
  text: string
}

/** A full data check, which runs on one node at a time. The result of the last run is stored for all nodes. */
export interface Inspection<Input, Result> {
  read: () => Promise<InspectionView<Result>>
  /** Throws CHECK_IN_PROGRESS if any node is already running the inspection. */
  claim: (tx: Queryable) => Promise<Claim<Result>>
  view: (claim: Claim<Result>) => InspectionView<Result>
  /** Runs a claimed inspection in the background. */
  start: (claim: Claim<Result>, input: Input) => void
  /** Aborts the run in progress. */
  stop: () => Promise<void>
}

const leaseMs = 90_000
const heartbeatMs = 20_000

export function inspection<Input, Result>(options: InspectionOptions<Input, Result>): Inspection<Input, Result> {
  const { db, node, now } = options
  const name = `inspection ${options.name}`
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const stored = async (tx: Queryable) => {
    const row = await tx.selectFrom('settings').select('value').where('name', '=', name).executeTakeFirst()
    return row?.value
  }
  return {
    read: async () => {
      const text = await stored(db.read)
      return text === undefined ? { status: 'never' } : viewOf<Result>(JSON.parse(text), now())
    },
    claim: async (tx) => {
      const before = await stored(tx)
      if (before !== undefined && viewOf(JSON.parse(before), now()).status === 'running') throw inProgress()
      const state: Stored<Result> = { status: 'running', node, startedAt: iso(now()), leaseUntil: iso(now() + leaseMs) }
      const text = JSON.stringify(state)
      if (!(await replaced(tx, name, before, text))) throw inProgress()
      return { state, text }
    },
    view: ({ state }) => viewOf(state, now()),
    start: (claim, input) => {
      running = run({ ...options, name }, claim, input, stopping.signal).catch(options.onError)
    },
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

const inProgress = () =>
  new Problem('CHECK_IN_PROGRESS', 'A node is already running this check', { headers: { 'retry-after': '5' } })

function viewOf<Result>({ leaseUntil, ...state }: Stored<Result>, nowMs: number): InspectionView<Result> {
  if (state.status !== 'running' || leaseUntil > iso(nowMs)) return state
  return { ...state, status: 'failed', error: 'The process that ran the check has ended' }
}

/** Replaces the stored state if it is still `before`; returns whether it was replaced. */
async function replaced(tx: Queryable, name: string, before: string | undefined, value: string): Promise<boolean> {
  if (before === undefined) {
    const added = tx.insertInto('settings').values({ name, value })
    const { numInsertedOrUpdatedRows } = await added
      .onConflict((conflict) => conflict.column('name').doNothing())
      .executeTakeFirstOrThrow()
    return numInsertedOrUpdatedRows === 1n
  }
  const same = tx.updateTable('settings').set({ value }).where('name', '=', name).where('value', '=', before)
  return (await same.executeTakeFirstOrThrow()).numUpdatedRows === 1n
}

async function run<Input, Result>(
  { db, name, now, run: make, onError }: InspectionOptions<Input, Result>,
  claim: Claim<Result>,
  input: Input,
  signal: AbortSignal,
): Promise<void> {
  let { text } = claim
  const save = async (state: Stored<Result>) => {
    const [before, next] = [text, JSON.stringify(state)]
    if (await db.write((tx) => replaced(tx, name, before, next))) text = next
  }
  let saving: Promise<unknown> = Promise.resolve()
  const beat = setInterval(() => {
    saving = save({ ...claim.state, leaseUntil: iso(now() + leaseMs) }).catch(onError)
  }, heartbeatMs)
  const finish = async (outcome: Partial<Stored<Result>>) => {
    clearInterval(beat)
    await saving
    await save({ ...claim.state, finishedAt: iso(now()), ...outcome })
  }
  try {
    const result = await make(input, signal)
    await finish({ status: 'completed', result })
  } catch (error) {
    if (!signal.aborted) onError(error)
    const reason = error instanceof Error ? error.message : String(error)
    await finish({ status: 'failed', error: signal.aborted ? 'The service was stopped' : reason })
  } finally {
    clearInterval(beat)
  }
}
