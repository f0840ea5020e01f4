import { type Scopes, scopesWith } from './auth/scopes.ts'
import type { ResourceTable } from './db/resource-tables.ts'
import type { Collection, Declaration } from './resources/declaration.ts'
import { DefinitionError } from './resources/declaration-rules.ts'
import { eventKindsOf } from './resources/event-kinds.ts'
import type { ReportKind } from './resources/reports/kinds.ts'
import { tableOf } from './resources/stored.ts'
import { type EventKinds, reportEvents, webhookEvents } from './resources/webhooks/event-types.ts'

/** One version of the interface: where it is, and what is served there. */
export interface Version {
  /** A contract's bare path is the same route as its `/v1` twin and never moves. */
  prefixes: readonly string[]
  collections: readonly Collection[]
}

/** What a service serves, as `service` made it; everything about it is told from here. */
export interface Definition {
  readonly [made]: true
  collections: readonly Collection[]
  versions: Readonly<Record<string, Version>>
  /** Report types besides those that each resource has. */
  reports: readonly ReportKind[]
  /** Every scope of the service. */
  scopes: Scopes
  /** Every kind of event that it tells of. */
  events: EventKinds
  tables: readonly ResourceTable[]
}

/** What an author says of a service. */
export interface ServiceOptions {
  resources: readonly Collection[]
  /** Which of the resources each version serves, such as `{ v1: [notes], v2: [notes, tags] }`; all in `v1` without it. */
  versions?: Readonly<Record<`v${number}`, readonly Collection[]>>
  /** Report types besides those that each resource has. */
  reports?: readonly ReportKind[]
}

/** Nothing else can have it: what another copy of this code made would not fit this one. */
const made = Symbol('made by service()')

/** Whether a value was made by `service` of this very installation. */
export const isDefinition = (value: unknown): value is Definition =>
  typeof value === 'object' && value !== null && made in value

/** A service of these resources. Throws `DefinitionError`, which names every mistake; the result is frozen. */
export function service(options: ServiceOptions): Definition {
  const { resources, versions = { v1: resources }, reports = [] } = options ?? {}
  const mistakes = mistakesOf({ resources, versions, reports })
  if (mistakes.length > 0) throw new DefinitionError(mistakes)
  const declarations = resources.map(({ declaration }) => declaration)
  const merged = (of: (declaration: Declaration) => object) => Object.assign({}, ...declarations.map(of))
  return Object.freeze({
    [made]: true as const,
    collections: Object.freeze([...resources]),
    versions: Object.freeze(
      Object.fromEntries(Object.entries(versions).map(([name, collections]) => [name, versionOf(name, collections)])),
    ),
    reports: Object.freeze([...reports]),
    scopes: scopesWith(merged(({ scopes }) => scopes)),
    events: Object.freeze({ ...reportEvents, ...merged(eventKindsOf), ...webhookEvents }),
    tables: Object.freeze(declarations.map(tableOf)),
  })
}

const versionOf = (name: string, collections: readonly Collection[]): Version =>
  Object.freeze({ prefixes: name === 'v1' ? ['', '/v1'] : [`/${name}`], collections: Object.freeze([...collections]) })

function mistakesOf({ resources, versions, reports }: Required<ServiceOptions>): string[] {
  if (!Array.isArray(resources) || resources.length === 0 || !resources.every(isCollection)) {
    return ['service: resources must be a list of what collection() returns, one at least']
  }
  const declarations = resources.map(({ declaration }) => declaration)
  return [
    ...twice(declarations.map(({ path }) => path)).map((path) => `service: the path ${path} is declared twice`),
    ...twice(declarations.map(({ noun }) => noun)).map((noun) => `service: the noun '${noun}' is declared twice`),
    ...versionMistakes(resources, versions),
    ...reportMistakes(declarations, reports),
  ]
}

const isCollection = (value: unknown): value is Collection =>
  typeof (value as Partial<Collection> | null)?.plugin === 'function' && Object.isFrozen(value)

const twice = (names: readonly string[]): string[] => [
  ...new Set(names.filter((name, at) => names.indexOf(name) !== at)),
]

function versionMistakes(resources: readonly Collection[], versions: Record<string, readonly Collection[]>): string[] {
  const wrong = Object.keys(versions)
    .filter((name) => !/^v[1-9][0-9]?$/.test(name))
    .map((name) => `service: versions are named v1, v2 and so on, not '${name}'`)
  // The bare paths of the contract are those of v1.
  if (!Object.hasOwn(versions, 'v1')) wrong.push('service: versions must have a v1')
  for (const [name, collections] of Object.entries(versions)) {
    const strange = !Array.isArray(collections) || collections.some((one) => !resources.includes(one))
    if (strange) wrong.push(`service: ${name} may serve only what resources lists`)
  }
  return wrong
}

/** The report types about the service itself. */
const ofEveryService = ['activity', 'deliveries']

function reportMistakes(declarations: readonly Declaration[], reports: readonly ReportKind[]): string[] {
  const names = [...ofEveryService, ...declarations.map(({ name }) => name), ...reports.map(({ name }) => name)]
  return [
    ...twice(names).map((name) => `service: the report type ${name} is declared twice`),
    ...reports
      .filter(({ name }) => !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name))
      .map(({ name }) => `service: the report type '${name}' must have a lower-case name`),
  ]
}
