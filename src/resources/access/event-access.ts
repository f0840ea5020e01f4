import type { Caller } from '../../http/policies/authenticate.ts'
import { type EventAccess, type EventReceiver, nounOf } from '../../queue/events.ts'
import { rowPasses } from '../conditions/conditions.ts'
import type { Declaration } from '../declaration.ts'
import { accessOf } from './enforce.ts'
import type { AccessOf, CallerFacts, DeclaredAccess } from './rules.ts'

export interface EventAccessOptions {
  declarations: readonly Declaration[]
  /** Every event type that the service emits. */
  types: readonly string[]
  factsOf: (caller: Caller) => Promise<CallerFacts>
  /** Returns a webhook's owner, with the scopes that the registering token had and that the owner still has. */
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

/** Returns whether one receiver may read the row with these facts. */
type Judge = (facts: Readonly<Record<string, unknown>>) => boolean

/** Applies the access rules of resources to their events, using the row facts stored with each event. */
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
        // If the resource is no longer declared, its rules are unknown. Events to which they applied are withheld.
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

/**
 * Returns a parser that caches its last result, because each event is checked for all receivers before the next event.
 */
function lastParsed(): (text: string) => Readonly<Record<string, unknown>> {
  let last = { text: '{}', facts: {} }
  return (text) => {
    if (text !== last.text) last = { text, facts: JSON.parse(text) }
    return last.facts
  }
}
