import { books } from '../catalog/books.ts'
import { products } from '../catalog/products.ts'
import { users } from '../catalog/users.ts'
import { type Scopes, scopesWith } from '../oauth/tokens/scopes.ts'
import { infoErrors, type ServiceInfo } from '../openapi/info.ts'
import type { ReportKind } from '../reports/report-types.ts'
import { tableOf } from '../resources/column-types.ts'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { eventKindsOf } from '../resources/event-types.ts'
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

/** What a service serves, as `service` made it; everything about it is told from here. */
export interface Definition {
  readonly [made]: true
  /** What its OpenAPI documents say of it. */
  info: Readonly<ServiceInfo>
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

/** What an author says of a service; its title and the like are those of its OpenAPI documents. */
export interface ServiceOptions extends Partial<ServiceInfo> {
  resources: readonly Collection[]
  /** Which of the resources each version serves, such as `{ v1: [notes], v2: [notes, tags] }`; all in both without it. */
  versions?: Readonly<Record<`v${number}`, readonly Collection[] | VersionDeclaration>>
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

/** The resources whose tables came with the first release: whatever is declared at their paths is kept in these tables. */
const firstResources = [users, products, books]

/** What is wrong with a resource at the path of a built-in one. */
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

/** The fields that no row of a built-in table can be without, and that a declaration would leave out or keep otherwise. */
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
