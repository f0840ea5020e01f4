import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type EngineUnderTest, forEachEngine } from '../../support/engines.ts'
import { diceFrom } from './no-leak/dice.ts'
import { Difference, type Plan, play } from './no-leak/play.ts'

/** SEED reproduces a run; CASES is the number of cases on each engine. See docs/testing.md. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const cases = Number(process.env.CASES ?? 120)
const maxCasesPerDefinition = Number(process.env.CASES_PER_DEFINITION ?? 100)
const firstRows = 64

/** Returns one plan for each definition, and divides the cases among the plans. */
function plansOf(): Plan[] {
  const dice = diceFrom(seed)
  const seeds = (length: number) => Array.from({ length }, () => dice.int(2 ** 31))
  const definitions = Math.ceil(cases / maxCasesPerDefinition)
  const casesOf = Math.ceil(cases / definitions)
  return Array.from({ length: definitions }, (_, at) => ({
    seed: dice.int(2 ** 31),
    rows: seeds(firstRows).map((seed, position) => ({ name: Math.floor((position * 4) / firstRows), seed })),
    cases: seeds(Math.min(casesOf, cases - at * casesOf)),
  }))
}

const maxAttempts = Number(process.env.SHRINKS ?? 60)

/** Minimizes a failing plan: removes ever smaller groups of cases and rows while the same difference remains. */
async function shrunk(engine: EngineUnderTest, found: Difference): Promise<Difference> {
  let best = found
  let attempts = 0
  /** Identifies the failed check by its stack frames, because messages contain request ids. */
  const placeOf = ({ cause }: Difference) =>
    String((cause as Error).stack)
      .match(/at \S+ \(\S*no-leak\S+\)/g)
      ?.join()
  const attempt = async (plan: Plan): Promise<boolean> => {
    attempts++
    const difference = await play(engine, plan).then(
      () => undefined,
      (error) => error,
    )
    const isSame = difference instanceof Difference && placeOf(difference) === placeOf(found)
    if (isSame) best = difference
    return isSame
  }
  for (const part of ['cases', 'rows'] as const) {
    for (let size = Math.ceil(best.plan[part].length / 2); size >= 1 && attempts < maxAttempts; ) {
      let at = 0
      while (at < best.plan[part].length && attempts < maxAttempts) {
        const left = best.plan[part].filter((_, index) => index < at || index >= at + size)
        const isLastCase = part === 'cases' && at + size >= best.plan.cases.length
        if (isLastCase || !(await attempt({ ...best.plan, [part]: left }))) at += size
      }
      size = size === 1 ? 0 : Math.ceil(size / 2)
    }
  }
  return best
}

forEachEngine((engine) => {
  describe(`random definitions, rows, callers and requests (SEED=${seed})`, () => {
    it('produce the same responses, reports and events as a naive in-memory model', async (t) => {
      const counts: Record<string, number> = {}
      let [requests, rows] = [0, 0]
      for (const [at, plan] of plansOf().entries()) {
        const played = await play(engine, plan).catch(async (error) => {
          if (!(error instanceof Difference)) throw error
          const { plan: least, message, cause } = await shrunk(engine, error)
          const text = cause instanceof Error ? cause.stack : cause
          assert.fail(`SEED=${seed}, definition ${at + 1}: ${JSON.stringify(least)}\n${message}\n${text}`)
        })
        requests += played.requests
        rows += played.rowsListed
        for (const [kind, number] of Object.entries(played.counts)) counts[kind] = (counts[kind] ?? 0) + number
      }
      if (cases >= 1_000) assert.ok(rows > cases / 2, `only ${rows} rows in lists`)
      t.diagnostic(`SEED=${seed}: ${cases} cases, ${requests} requests, ${rows} rows in lists, no difference`)
      t.diagnostic(JSON.stringify(Object.fromEntries(Object.entries(counts).sort())))
    })
  })
})
