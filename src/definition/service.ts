import { books } from '../catalog/books.ts'
import { products } from '../catalog/products.ts'
import { users } from '../catalog/users.ts'
import { type Scopes, scopesWith } from '../oauth/tokens/scopes.ts'
import { infoErrors, type ServiceInfo } from '../openapi/info.ts'
import type { ReportKind } from '../reports/report-types.ts'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { eventKindsOf } from '../resources/event-types.ts'
import { tableOf } from '../resources/table.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { ResourceColumn, ResourceTable } from '../storage/resource-tables/resource-columns.ts'
import { type EventKinds, reportEvents, webhookEvents } from '../webhooks/event-types.ts'
import {
  type DeclaredVersions,
  declaredVersions,
  type Version,
  type VersionDeclaration,
  versionMistakes,
  versionOf,
} from './version.ts'

/** A service as created by `service`; everything else is derived from it. */
export interface Definition {
  readonly [made]: true
  /** Title, description and the like of its OpenAPI documents. */
  info: Readonly<ServiceInfo>
  collections: readonly Collection[]
  versions: Readonly<Record<string, Version>>
  /** Report types in addition to one per resource. */
  reports: readonly ReportKind[]
  /** Every scope of the service. */
  scopes: Scopes
  /** Every event type that it emits. */
  events: EventKinds
  tables: readonly ResourceTable[]
}

/** The options of `service`; title and the like appear in the OpenAPI documents. */
export interface ServiceOptions extends Partial<ServiceInfo> {
  resources: readonly Collection[]
  /** The resources of each version, such as `{ v1: [notes], v2: [notes, tags] }`; default: all resources in v1 and v2. */
  versions?: Readonly<Record<`v${number}`, readonly Collection[] | VersionDeclaration>>
  /** Report types in addition to one per resource. */
  reports?: readonly ReportKind[]
}

/** A private symbol: a definition made by another copy of this code would not be compatible. */
const made = Symbol('made by service()')

/** Whether a value was created by `service` of this installation. */
export const isDefinition = (value: unknown): value is Definition =>
  typeof value === 'object' && value !== null && made in value

/** Defines a service. Throws `DefinitionError`, which lists every error; the result is frozen. */
export function service(options: ServiceOptions): Definition {
  const { resources, reports = [], versions: said, ...about } = options ?? {}
  const versions = declaredVersions(said ?? { v1: resources, v2: resources })
  const mistakes = [...infoErrors(about), ...mistakesOf({ resources, versions, reports })]
  if (mistakes.length > 0) throw new DefinitionError(mistakes)
  const declarations = resources.map(({ declaration }) => declaration)
  const merged = (of: (declaration: Declaration) => object) => Object.assign({}, ...declarations.map(of))
  return Object.freeze({
    [made]: true as const,
    info: Object.freeze({ title: 'Service', ...about }),
    collections: Object.freeze([...resources]),
    versions: Object.freeze(
      Object.fromEntries(Object.entries(versions).map(([name, version]) => [name, versionOf(name, version)])),
    ),
    reports: Object.freeze([...reports]),
    scopes: scopesWith(merged(({ scopes }) => scopes)),
    events: Object.freeze({ ...reportEvents, ...merged(eventKindsOf), ...webhookEvents }),
    tables: Object.freeze(declarations.map(tableOf)),
  })
}

function mistakesOf({
  resources,
  versions,
  reports,
}: Required<Pick<ServiceOptions, 'resources' | 'reports'>> & { versions: DeclaredVersions }): string[] {
  if (!Array.isArray(resources) || resources.length === 0 || !resources.every(isCollection)) {
    return ['service: resources must be a list of what collection() returns, one at least']
  }
  const declarations = resources.map(({ declaration }) => declaration)
  return [
    ...twice(declarations.map(({ path }) => path)).map((path) => `service: the path ${path} is declared twice`),
    ...twice(declarations.map(({ noun }) => noun)).map((noun) => `service: the noun '${noun}' is declared twice`),
    ...resources.flatMap(placeMistakes),
    ...versionMistakes(resources, versions),
    ...reportMistakes(declarations, reports),
  ]
}

const isCollection = (value: unknown): value is Collection =>
  typeof (value as Partial<Collection> | null)?.plugin === 'function' && Object.isFrozen(value)

const twice = (names: readonly string[]): string[] => [
  ...new Set(names.filter((name, at) => names.indexOf(name) !== at)),
]

/**
 * The resources whose tables came with the first release; any resource declared at their paths is stored in these tables.
 */
const firstResources = [users, products, books]

/** Errors of a resource declared at the path of a built-in one. */
function placeMistakes(resource: Collection): string[] {
  const { declaration } = resource
  const { path, name } = declaration
  const builtIn = firstResources.find((one) => one.declaration.path === path)
  if (builtIn === undefined || builtIn === resource) return []
  const instead = `import { ${name} } from 'plinth', or take another path`
  if (builtIn === users) return [`${path}: this path belongs to the users who log in: ${instead}`]
  const needed = misfits(declaration, builtIn.declaration)
  if (needed.length === 0) return []
  const how = 'required, of the same type, and compared as there (search, filters, sorts)'
  return [
    `${path}: every row of its table has ${needed.join(' and ')}: declare them as the built-in ${name} does, ${how}; or ${instead}`,
  ]
}

/** Required fields of a built-in table that a declaration leaves out or would store differently. */
function misfits(declaration: Declaration, builtIn: Declaration): string[] {
  const own = new Map(tableOf(declaration).columns.map((column) => [column.name, column]))
  const needed = tableOf(builtIn).columns.filter(({ required }) => required)
  const fits = ({ name, kind, folded }: ResourceColumn) => {
    const column = own.get(name)
    return column?.required === true && column.kind === kind && (column.folded || !folded)
  }
  return needed.filter((column) => !fits(column)).map(({ name }) => name)
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
