import type { Caller } from '../../http/policies/authenticate.ts'
import { type EventAccess, type EventReceiver, nounOf } from '../../queue/events.ts'
import { rowPasses } from '../conditions/conditions.ts'
import type { Declaration } from '../declaration.ts'
import { accessOf } from './enforce.ts'
import type { AccessOf, CallerFacts, DeclaredAccess } from './rules.ts'

export interface EventAccessOptions {
  declarations: readonly Declaration[]
  /** Every event type of the service. */
  types: readonly string[]
  factsOf: (caller: Caller) => Promise<CallerFacts>
  /** A webhook's owner, with the scopes that remain of those that its token had. */
  callerNow: (receiver: EventReceiver) => Promise<Caller>
  now: () => number
  /** The time zone of `'today'`. */
  zone: string
}

interface Restricted {
  readScope: string | null
  access: DeclaredAccess
  accessOf: AccessOf
}

/** Whether one receiver may read the row with these facts. */
type Judge = (facts: Readonly<Record<string, unknown>>) => boolean

/** Applies the access rules of resources to their events, with the facts of the row that each event keeps. */
export function eventAccess({ declarations, types, callerNow, ...rules }: EventAccessOptions): EventAccess {
  const restricted = new Map(
    declarations.flatMap((declaration) => {
      const { noun, readScope, access } = declaration
      const evaluate = accessOf(declaration, rules)
      return access && evaluate ? [[noun, { readScope, access, accessOf: evaluate } satisfies Restricted] as const] : []
    }),
  )
  const declared = new Set(types)
  const judgeFor = async ({ readScope, access, accessOf }: Restricted, receiver: EventReceiver): Promise<Judge> => {
    const caller = await callerNow(receiver)
    if (readScope !== null && !caller.scopes.has(readScope)) return () => false
    const { read } = await accessOf(caller)
    return (facts) => rowPasses(read, facts, access)
  }
  return {
    appliesTo: (type) => restricted.has(nounOf(type)) || !declared.has(type),
    judge: () => {
      const judges = new Map<string, Promise<Judge>>()
      const read = lastParsed()
      return async (receiver, { type, facts }) => {
        const resource = restricted.get(nounOf(type))
        // Nobody can judge the rows of a resource that is no longer declared.
        if (resource === undefined) return declared.has(type) || facts === null
        if (facts === null) return false
        const { ownerClient, ownerSubject, scopes } = receiver
        const key = JSON.stringify([nounOf(type), ownerClient, ownerSubject, scopes])
        const known = judges.get(key) ?? judgeFor(resource, receiver)
        judges.set(key, known)
        return (await known)(read(facts))
      }
    },
  }
}

/** Parses facts; each event is judged for all receivers before the next. */
function lastParsed(): (text: string) => Readonly<Record<string, unknown>> {
  let last = { text: '{}', facts: {} }
  return (text) => {
    if (text !== last.text) last = { text, facts: JSON.parse(text) }
    return last.facts
  }
}
