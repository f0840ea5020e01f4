import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import type { EngineUnderTest } from '../../../support/engines.ts'
import { checkDeliveries, checkResend } from './check-events.ts'
import { checkList, checkRead } from './check-reads.ts'
import { checkRowsReport, checkTypedReport } from './check-reports.ts'
import { checkChange, checkCreate, checkRemove, checkReplay } from './check-writes.ts'
import { advance, type Context, move, start } from './context.ts'
import { type Dice, diceFrom } from './dice.ts'
import { drawWorld } from './draw-world.ts'
import type { Name } from './shapes.ts'

/** One definition, its first rows and its cases. Every row and case has its own seed, so that each can be left out. */
export interface Plan {
  seed: number
  /** For each row, the index of its collection, and its seed. */
  rows: readonly { name: number; seed: number }[]
  cases: readonly number[]
}

export interface Played {
  counts: Record<string, number>
  requests: number
  rowsListed: number
}

/** A difference between the service and the model. */
export class Difference extends Error {
  readonly plan: Plan
  constructor(plan: Plan, story: string, cause: unknown) {
    super(story, { cause })
    this.plan = plan
  }
}

/** The checks, each with the weight with which it is chosen. */
const kinds: readonly [number, (dice: Dice, on: Context) => Promise<unknown>][] = [
  [20, (dice, on) => checkList(dice, on, false)],
  [8, (dice, on) => checkList(dice, on, true)],
  [16, (dice, on) => checkRead(dice, on)],
  [15, (dice, on) => checkCreate(dice, on)],
  [3, (dice, on) => checkReplay(dice, on)],
  [10, (dice, on) => checkChange(dice, on, 'PUT')],
  [12, (dice, on) => checkChange(dice, on, 'PATCH')],
  [5, (dice, on) => checkRemove(dice, on)],
  [4, (dice, on) => checkResend(dice, on)],
  [2, (dice, on) => checkRowsReport(dice, on)],
  [2, (dice, on) => checkTypedReport(dice, on)],
]
const weighted = kinds.flatMap(([weight, check]) => Array.from({ length: weight }, () => check))

/**
 * Runs one case: runs random checks until one sends a request. A check sends none if, for example, no row is suitable.
 */
async function playCase(dice: Dice, on: Context): Promise<void> {
  advance(on, 1 + dice.int(1_500))
  if (dice.chance(0.06)) {
    const person = dice.one([...on.people, ...on.hooks.map(({ owner }) => owner)])
    await move(on, person, dice.one(['north', 'South', 'south', undefined]))
  }
  if (dice.chance(0.01)) advance(on, 86_400_000)
  for (const before = on.requests; on.requests === before; ) {
    const check = dice.one(weighted)
    const changes = await check(dice, on)
    await checkDeliveries(on, Array.isArray(changes) ? changes : [])
  }
  assert.deepEqual(on.app.faults, [])
}

/** Plays a plan on a new service. If a response differs from the model, throws a `Difference` with the steps so far. */
export async function play(engine: EngineUnderTest, plan: Plan): Promise<Played> {
  const dice = diceFrom(plan.seed)
  const world = drawWorld(dice)
  const { on, openRules, register, close } = await start(engine, world, dice)
  let done = 0
  try {
    for (const { name, seed } of plan.rows) {
      const rowDice = diceFrom(seed)
      const of = world.names[name % world.names.length] as Name
      advance(on, 1_000)
      const place = { name: of, version: 'v2', prefix: '/v2' } as const
      await checkCreate(rowDice, on, place, rowDice.one(on.people))
    }
    openRules()
    await register()
    on.counts = {}
    on.requests = 0
    for (const seed of plan.cases) {
      done++
      if (done < plan.cases.length) on.log.push('--')
      await playCase(diceFrom(seed), on)
    }
    return { counts: on.counts, requests: on.requests, rowsListed: on.rowsListed }
  } catch (error) {
    throw new Difference({ ...plan, cases: plan.cases.slice(0, done) }, storyOf(on), error)
  } finally {
    await close()
  }
}

/** Describes the definition, the rows, the callers and the requests that led to a difference. */
function storyOf({ app, state, people, log }: Context): string {
  const { names, shapes, report } = state.world
  const rows = names.map((name) => `${name}: ${JSON.stringify([...state.rows[name].values()])}`)
  return [
    ...['definition:', ...names.map((name) => `  ${name}: ${JSON.stringify(shapes[name])}`)],
    `  report: ${JSON.stringify(report)}`,
    ...['callers:', ...people.map(({ scopes: _, ...person }) => `  ${JSON.stringify(person)}`)],
    ...['rows before or after the last request:', ...rows.map((line) => `  ${line}`)],
    ...['requests:', ...log.map((line) => `  ${line}`)],
    ...app.faults.map((fault) => `fault: ${inspect(fault)}`),
  ].join('\n')
}
