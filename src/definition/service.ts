import { books } from '../catalog/books.ts'
import type { ExtendedUsers } from '../catalog/extended-users.ts'
import { products } from '../catalog/products.ts'
import { users } from '../catalog/users.ts'
import { type Code, codeErrors, codeEvents, collectCode } from '../code/collect.ts'
import { type Scopes, scopesWith } from '../oauth/tokens/scopes.ts'
import { infoErrors, type ServiceInfo } from '../openapi/info.ts'
import type { ReportKind } from '../reports/report-types.ts'
import { eventKindsOf } from '../resources/change-events.ts'
import { withTotals } from '../resources/computed/total-columns.ts'
import { totalErrors } from '../resources/computed/total-sources.ts'
import { defaultZone, isZone } from '../resources/conditions/today.ts'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { relationErrors } from '../resources/relations/relation-rules.ts'
import { isReport, type Report } from '../resources/reports/report.ts'
import { tableOf } from '../resources/table.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { ResourceColumn, ResourceTable } from '../storage/resource-tables/resource-columns.ts'
import { type EventKinds, reportEvents, webhookEvents } from '../webhooks/event-types.ts'
import { duplicates, reportTypeErrors } from './report-rules.ts'
import { extensionErrors, withUsers, withUsersIn } from './users-rules.ts'
import {
  type DeclaredVersions,
  declaredVersions,
  type Version,
  type VersionDeclaration,
  versionErrors,
  versionOf,
} from './version.ts'

/** The result of `service()`, from which the rest of the application is derived. */
export interface Definition<Claims extends object = object, Role extends string = string> {
  readonly [brand]: true
  /** Only for types: the claims and the roles that `plinth()` declares. */
  readonly [declaredTypes]?: { claims: Claims; role: Role }
  /** The `info` object of the OpenAPI documents: title, description and other members. */
  info: Readonly<ServiceInfo>
  collections: readonly Collection[]
  versions: Readonly<Record<string, Version>>
  /** Report types with their own SQL, in addition to the report of each resource. */
  reports: readonly ReportKind[]
  /** Report types created by `report()`. */
  typedReports: readonly Report[]
  /** Every scope of the service. */
  scopes: Scopes
  /** Every event type that the service emits. */
  events: EventKinds
  tables: readonly ResourceTable[]
  /** The time zone in which conditions evaluate `'today'`, and the default zone of schedules. */
  zone: string
  /** The author's code: hooks, actions, events, jobs and schedules. */
  code: Code
  /** The users as extended by the option `users` of `plinth()`; absent without that option. */
  users?: ExtendedUsers
}

/** The options of `service`; members such as `title` and `description` appear in the OpenAPI documents. */
export interface ServiceOptions extends Partial<ServiceInfo> {
  resources: readonly Collection[]
  /**
   * The resources of each version, such as `{ v1: [notes], v2: [notes, tags] }`; default: all resources in v1 and v2.
   */
  versions?: Readonly<Record<`v${number}`, readonly Collection[] | VersionDeclaration>>
  /** Report types in addition to the report of each resource: results of `report()`, or types with their own SQL. */
  reports?: readonly (ReportKind | Report)[]
  /**
   * The author's code, such as a module imported with `import * as code`: all its exports made by `hooks()`,
   * `action()`, `event()`, `job()` and `schedule()`.
   */
  code?: object
  /**
   * The time zone, such as `Europe/Berlin`, in which conditions evaluate `'today'`, and the default zone of schedules;
   * default: UTC.
   */
  zone?: string
}

/** Not exported, so that a definition created by another installed copy of this package is rejected. */
const brand = Symbol('created by service()')
declare const declaredTypes: unique symbol

/** Returns true for values created by `service` in this installation of the package. */
export const isDefinition = (value: unknown): value is Definition =>
  typeof value === 'object' && value !== null && brand in value

/** Defines a service and returns it frozen. Throws `DefinitionError`, which lists every error. */
export const service = (options: ServiceOptions): Definition => defineService(options)

/** Like `service`, but every version also serves these users. */
export function defineService(options: ServiceOptions, users?: ExtendedUsers): Definition {
  const { resources: listed, reports = [], versions: declared, zone = defaultZone, code, ...info } = options ?? {}
  const resources = withUsers(listed, users)
  const versions = withUsersIn(declaredVersions(declared ?? { v1: resources, v2: resources }), users)
  const errors = [
    ...infoErrors(info),
    ...serviceErrors({ resources, versions, reports, users, code }),
    ...zoneErrors(zone),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  const declarations = resources.map(({ declaration }) => declaration)
  const collected = collectCode(code)
  const merged = (of: (declaration: Declaration) => object) => Object.assign({}, ...declarations.map(of))
  return Object.freeze({
    [brand]: true as const,
    info: Object.freeze({ title: 'Service', ...info }),
    collections: Object.freeze([...resources]),
    versions: Object.freeze(
      Object.fromEntries(Object.entries(versions).map(([name, version]) => [name, versionOf(name, version)])),
    ),
    reports: Object.freeze(reports.filter((one): one is ReportKind => !isReport(one))),
    typedReports: Object.freeze(reports.filter(isReport)),
    scopes: scopesWith(merged(({ scopes }) => scopes)),
    events: Object.freeze({
      ...reportEvents,
      ...merged(eventKindsOf),
      ...codeEvents(collected),
      ...webhookEvents,
    }),
    tables: Object.freeze(declarations.map((one) => withTotals(tableOf(one), one, declarations))),
    ...(users && { users }),
    ...{ code: collected, zone },
  })
}

const zoneErrors = (zone: unknown): string[] =>
  isZone(zone) ? [] : [`service: zone must be the name of a time zone such as 'Europe/Berlin', not '${String(zone)}'`]

interface Declared extends Required<Pick<ServiceOptions, 'resources' | 'reports'>> {
  versions: DeclaredVersions
  users: ExtendedUsers | undefined
  code: unknown
}

function serviceErrors({ resources, versions, reports, users, code }: Declared): string[] {
  if (!Array.isArray(resources) || resources.length === 0 || !resources.every(isCollection)) {
    return ['service: resources must be a non-empty array of collection() results']
  }
  const declarations = resources.map(({ declaration }) => declaration)
  const views = declarations.filter(({ view }) => view !== undefined)
  if (views.length > 0) {
    return views.map(
      ({ path }) => `service: resources lists a view of ${path}: list the collection, and the view in versions`,
    )
  }
  return [
    ...duplicates(declarations.map(({ path }) => path)).map((path) => `service: the path ${path} is declared twice`),
    ...duplicates(declarations.map(({ noun }) => noun)).map((noun) => `service: the noun '${noun}' is declared twice`),
    ...duplicates(declarations.map(({ table }) => table)).map(
      (table) => `service: two resources have the table ${table}`,
    ),
    ...extensionErrors(resources, users),
    ...resources.filter((one) => one !== users?.collection).flatMap(builtInPathErrors),
    ...relationErrors(declarations),
    ...totalErrors(declarations),
    ...versionErrors(resources, versions),
    ...reportTypeErrors(declarations, reports),
    ...codeErrors(code, declarations),
  ]
}

const isCollection = (value: unknown): value is Collection =>
  typeof (value as Partial<Collection> | null)?.plugin === 'function' && Object.isFrozen(value)

/** Resources whose tables the first migration creates. A resource declared at the same path uses the existing table. */
const builtInResources = [users, products, books]

/**
 * Returns an error if a resource is declared at the path of a built-in resource but does not fit that table. `/users`
 * is reserved.
 */
function builtInPathErrors(resource: Collection): string[] {
  const { declaration } = resource
  const { path, name } = declaration
  const builtIn = builtInResources.find((collection) => collection.declaration.path === path)
  if (builtIn === undefined || builtIn === resource) return []
  const instead = `import { ${name} } from 'plinth', or choose another path`
  if (builtIn === users) return [`${path}: this path is reserved for the users who log in: ${instead}`]
  const fields = mismatchingFields(declaration, builtIn.declaration)
  if (fields.length === 0) return []
  const how = `as the built-in ${name} does (required, of the same type, in the same search, filters and sorts)`
  return [`${path}: every row of its table has ${fields.join(' and ')}: declare them ${how}, or ${instead}`]
}

/** Lists the required fields of a built-in table that a declaration omits or would store differently. */
function mismatchingFields(declaration: Declaration, builtIn: Declaration): string[] {
  const own = new Map(tableOf(declaration).columns.map((column) => [column.name, column]))
  const requiredColumns = tableOf(builtIn).columns.filter(({ required }) => required)
  const fits = ({ name, kind, folded }: ResourceColumn) => {
    const column = own.get(name)
    return column?.required === true && column.kind === kind && (column.folded || !folded)
  }
  return requiredColumns.filter((column) => !fits(column)).map(({ name }) => name)
}
