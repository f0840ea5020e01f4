import { extendedUserReader } from './catalog/user-rows.ts'
import type { Definition } from './definition/service.ts'
import type { Caller } from './http/policies/authenticate.ts'
import type { ReportAccess } from './reports/report-types.ts'
import { callerFacts } from './resources/access/caller-facts.ts'
import { accessOf } from './resources/access/enforce.ts'
import { eventAccess } from './resources/access/event-access.ts'
import type { Database } from './storage/database.ts'
import { passesNone } from './storage/rows/row-test.ts'
import { storedCallers } from './stored-callers.ts'

/** The access rules of a definition, for requests, events and reports; they share what is known about callers. */
export function rowAccess(definition: Definition, { db, now }: { db: Database; now: () => number }) {
  const { collections, events, users, zone } = definition
  const factsOf = callerFacts({ db, now, readUser: users && extendedUserReader(db, users) })
  const callerNow = storedCallers(db, factsOf)
  const declarations = collections.map(({ declaration }) => declaration)
  const rules = new Map(declarations.map((one) => [one.name, accessOf(one, { factsOf, now, zone })] as const))
  const readable = async (name: string, caller: Caller) => (await rules.get(name)?.(caller))?.read ?? passesNone
  return {
    factsOf,
    eventAccess: eventAccess({ declarations, types: Object.keys(events), factsOf, callerNow, now, zone }),
    reportAccess: { readable, callerNow } satisfies ReportAccess,
  }
}
