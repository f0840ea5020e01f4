import { exampleOf } from '../openapi/examples.ts'
import { plain, type Schema } from '../openapi/schemas.ts'
import type { EventKind } from '../queue/events.ts'
import type { Declaration } from '../resources/declaration.ts'
import type { Action } from './action.ts'
import type { AnyEvent } from './event.ts'
import type { Hooks } from './hooks.ts'
import type { Job, Schedule } from './jobs.ts'
import { codeNotGiven, isMade, type Made, markGiven } from './made.ts'

/** The code of a service, by kind. */
export interface Code {
  readonly hooks: readonly Hooks[]
  readonly actions: readonly Action[]
  readonly events: readonly AnyEvent[]
  readonly jobs: readonly Job[]
  readonly schedules: readonly Schedule[]
}

/** Collects the hooks, actions, events, jobs and schedules among the members of `code`, such as a module's exports. */
export function collectCode(code: unknown): Code {
  const all = Object.values(Object(code)).filter(isMade)
  const distinct = [...new Set(all)]
  const of = <One extends Made>(kind: One['kind']) => distinct.filter((one) => one.kind === kind) as Made[] as One[]
  return Object.freeze({
    hooks: of<Hooks>('hooks'),
    actions: of<Action>('action'),
    events: of<AnyEvent>('event'),
    jobs: of<Job>('job'),
    schedules: of<Schedule>('schedule'),
  })
}

const listed = ({ hooks, actions, events, jobs, schedules }: Code): Made[] => [
  ...hooks,
  ...actions,
  ...events,
  ...jobs,
  ...schedules,
]

/** Returns the declared events by type. */
export const codeEvents = ({ events }: Code): Record<string, EventKind> =>
  Object.fromEntries(
    events.map(({ type, schema, description, scope }) => {
      const plainSchema = plain(schema) as Schema
      return [
        type,
        { description, schema: plainSchema, example: exampleOf(plainSchema) as object, audience: scope ?? 'any' },
      ]
    }),
  )

/**
 * Returns the errors in the code of a service with these collections. Code that belongs to one of them but is missing
 * from `code` is an error: otherwise, a forgotten import would silently disable hooks.
 */
export function codeErrors(code: unknown, declarations: readonly Declaration[]): string[] {
  if (code !== undefined && (typeof code !== 'object' || code === null)) {
    return ['service: code must be an object, such as a module imported with `import * as code`']
  }
  const collected = collectCode(code)
  const all = listed(collected)
  markGiven(all)
  const foreign = all.filter(({ of }) => of !== undefined && !declarations.includes(of))
  return [
    ...codeNotGiven(declarations).map(notGiven),
    ...foreign.map(({ label }) => `service: ${label}: resources must include the collection`),
    ...hookErrors(collected.hooks),
    ...duplicateErrors(
      'event',
      collected.events.map(({ type }) => type),
    ),
    ...duplicateErrors(
      'action',
      collected.actions.map(({ of, name, isOfRow }) => `${of.path}${isOfRow ? '/{id}' : ''}/${name}`),
    ),
    // Each run of a schedule is a job with the schedule's name, so a job must have another name.
    ...duplicateErrors(
      'job or schedule',
      [...collected.jobs, ...collected.schedules].map(({ name }) => name),
    ),
  ]
}

/** Returns the error for code that was declared but not passed to a service. */
export const notGiven = ({ label }: Made): string => `service: ${label} was made, but code does not include it`

/** Returns an error if a collection has several hooks for the same moment, because their order would be undefined. */
function hookErrors(hooks: readonly Hooks[]): string[] {
  const names = hooks.flatMap(({ of, functions }) => Object.keys(functions).map((moment) => `${moment} of ${of.path}`))
  return duplicateErrors('hook', names)
}

const duplicateErrors = (what: string, names: readonly string[]): string[] =>
  [...new Set(names.filter((name, at) => names.indexOf(name) !== at))].map(
    (name) => `service: the ${what} ${name} is declared twice`,
  )
