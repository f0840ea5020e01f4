import {
  type Access,
  accessOf,
  bodySchema,
  type Document,
  hasNumbers,
  itemSchema,
  type Method,
  type Operation,
  type Parameter,
  pathOf,
  resolved,
  type Schema,
} from '../../api/document.ts'

/** A field of a resource, with the properties that forms and tables need. */
export interface Field {
  name: string
  label: string
  schema: Schema
  /** Whether a POST must contain the field. */
  isRequired: boolean
  /** Whether the service rejects the field in request bodies. */
  isReadOnly: boolean
  /** Whether responses omit the field. */
  isWriteOnly: boolean
  /** Whether rows in lists contain the field. */
  isListed: boolean
  /** For a reference, the name of the resource that it refers to. */
  reference: string | null
  /** True for numbers and decimals, but not for ids and references. */
  isNumber: boolean
  /** The operations on the file of the field; null if the field is not a file. */
  file: FileOperations | null
}

/** The allowed media types, and the scopes for each operation; an operation that does not exist is undefined. */
export interface FileOperations {
  types: readonly string[]
  download: Access | undefined
  upload: Access | undefined
  remove: Access | undefined
}

/** A query parameter that filters a list. */
export interface Filter {
  parameter: string
  /** The field, such as `price`, or `customer.name` for a field of a related row. */
  field: string
  /** The operator, such as `from` or `before`; empty for equality. */
  operator: string
  schema: Schema
  description: string
}

/** A list of related rows of another resource, below a single row of this one. */
export interface NestedList {
  name: string
  resource: string
  /** The path, with the placeholder `{id}`. */
  path: string
  access: Access
}

export interface Resource {
  name: string
  title: string
  path: string
  noun: string
  fields: readonly Field[]
  filters: readonly Filter[]
  sorts: readonly string[]
  hasSearch: boolean
  nested: readonly NestedList[]
  /** The scopes for each operation; undefined for an operation that does not exist. */
  can: Partial<Record<'list' | 'create' | 'read' | 'patch' | 'remove' | 'listDeleted' | 'restore' | 'erase', Access>>
}

const isMember = (name: string) => !name.startsWith('_')

/** Returns a label such as `Line items` for `line-items`, or `Created at` for `createdAt`. */
export function labelOf(name: string): string {
  const words = name
    .replace(/[-_.]/g, ' ')
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns the resources that the document describes, in the document's order. */
export function resourcesOf(document: Document): Resource[] {
  const names = new Set(
    Object.entries(document.paths).flatMap(([path, methods]) => {
      const name = /^\/([a-z0-9-]+)(\/\{id\})?$/.exec(path)?.[1]
      const isResource = Object.values(methods).some((operation) => name !== undefined && operation?.tags?.[0] === name)
      return name !== undefined && isResource ? [name] : []
    }),
  )
  return [...names].map((name) => resourceOf(document, name))
}

function resourceOf(document: Document, name: string): Resource {
  const path = `/${name}`
  const of = (at: string, method: Method) => document.paths[at]?.[method]
  const [one, deleted] = [`${path}/{id}`, `/api/deleted/${name}`]
  const [list, create, read, patch] = [of(path, 'get'), of(path, 'post'), of(one, 'get'), of(one, 'patch')]
  const operations = {
    ...{ list, create, read, patch, remove: of(one, 'delete') },
    listDeleted: of(deleted, 'get'),
    restore: of(`${deleted}/{id}/restore`, 'post'),
    erase: of(`${deleted}/{id}`, 'delete'),
  }
  const can = Object.entries(operations).flatMap(([operation, found]) => (found ? [[operation, accessOf(found)]] : []))
  const parameters = (list?.parameters ?? []).map((parameter) => resolved(document, parameter))
  const noun = /^[a-z]+(.*)$/.exec((read ?? create ?? list)?.operationId ?? '')?.[1] ?? name
  return {
    ...{ name, path, title: labelOf(name), noun: labelOf(noun).toLowerCase() },
    fields: fieldsOf(document, one, { list, create, read, patch }),
    filters: filtersOf(parameters),
    sorts: sortsOf(parameters),
    hasSearch: parameters.some((parameter) => parameter.name === 'q'),
    nested: nestedOf(document, path, read),
    can: Object.fromEntries(can),
  }
}

function fieldsOf(
  document: Document,
  path: string,
  { list, create, read, patch }: Record<'list' | 'create' | 'read' | 'patch', Operation | undefined>,
): Field[] {
  const listed = itemSchema(document, list).properties ?? {}
  const shown = read ? (bodySchema(document, read.responses['200']?.content).properties ?? {}) : listed
  const { properties: sent = {}, required = [] } = bodySchema(document, create?.requestBody?.content)
  const changed = bodySchema(document, patch?.requestBody?.content).properties ?? {}
  const links = Object.entries(read?.responses['200']?.links ?? {})
  const targets = new Map(
    links.flatMap(([, { operationId, parameters }]) => {
      const field = /^\$response\.body#\/(.+)$/.exec(parameters.id ?? '')?.[1]
      const target = /^\/([a-z0-9-]+)\//.exec(pathOf(document, operationId) ?? '')?.[1]
      return field !== undefined && field !== 'id' && target !== undefined ? [[field, target] as const] : []
    }),
  )
  const expanded = new Set(links.map(([name]) => name))
  const order = [...Object.keys(shown), ...Object.keys(sent), ...Object.keys(changed)]
  return [...new Set(order)]
    .filter((name) => isMember(name) && !expanded.has(name))
    .map((name) => ({ name, schema: sent[name] ?? changed[name] ?? shown[name] ?? {} }))
    .map(({ name, schema }) => ({
      ...{ name, label: labelOf(name.replace(/Id$/, '')), schema },
      isNumber: name !== 'id' && !targets.has(name) && hasNumbers(schema),
      isRequired: required.includes(name),
      isReadOnly: sent[name] === undefined && changed[name] === undefined,
      isWriteOnly: shown[name] === undefined && listed[name] === undefined,
      isListed: listed[name] !== undefined,
      reference: targets.get(name) ?? null,
      file: fileOf(document, `${path}/${name}`),
    }))
}

function fileOf(document: Document, path: string): FileOperations | null {
  const { get, put, delete: remove } = document.paths[path] ?? {}
  const content = (put?.requestBody ?? get?.responses['200'])?.content ?? {}
  if (!Object.values(content).some(({ schema }) => schema?.format === 'binary')) return null
  return {
    types: Object.keys(content),
    download: get && accessOf(get),
    upload: put && accessOf(put),
    remove: remove && accessOf(remove),
  }
}

const paging = ['limit', 'cursor', 'sort', 'fields', 'q', 'or', 'expand']

function filtersOf(parameters: readonly Parameter[]): Filter[] {
  const filters = parameters
    .filter((parameter) => parameter.in === 'query' && !paging.includes(parameter.name))
    .map(({ name, schema = {}, description = '' }): Filter => {
      const [, field = name, operator = ''] = /^([^[]+)(?:\[(\w+)\])?$/.exec(name) ?? []
      const [, time, side = ''] = /^(.+)(After|Before)$/.exec(name) ?? []
      if (time !== undefined) return { parameter: name, field: time, operator: side.toLowerCase(), schema, description }
      return { parameter: name, field, operator, schema, description }
    })
  const known = new Set(
    filters.filter(({ parameter }) => parameter.includes('[')).map(({ field }) => field.toLowerCase()),
  )
  // `minPrice` and `maxPrice` are other names for `price[from]` and `price[to]`.
  return filters.filter(({ parameter }) => {
    const field = /^(?:min|max)([A-Z].*)$/.exec(parameter)?.[1] ?? /^(.+)(?:After|Before)$/.exec(parameter)?.[1]
    return field === undefined || !known.has(field.toLowerCase())
  })
}

/** Reads the fields to sort by from the pattern of the `sort` parameter: `^(-?(id|name)…`. */
function sortsOf(parameters: readonly Parameter[]): string[] {
  const { pattern = '' } = parameters.find(({ name }) => name === 'sort')?.schema ?? {}
  return /\(([\w.|[\]]+)\)/.exec(pattern)?.[1]?.replaceAll(/[[\]]/g, '').split('|') ?? []
}

function nestedOf(document: Document, path: string, read: Operation | undefined): NestedList[] {
  return Object.entries(read?.responses['200']?.links ?? {}).flatMap(([name, { operationId }]) => {
    const found = pathOf(document, operationId)
    const resource = found?.startsWith(`${path}/{id}/`) ? found.slice(`${path}/{id}/`.length) : undefined
    const operation = found === undefined ? undefined : document.paths[found]?.get
    if (found === undefined || resource === undefined || operation === undefined) return []
    return [{ name, resource, path: found, access: accessOf(operation) }]
  })
}

/** A row of a resource. */
export type Row = Record<string, unknown> & { id: number | string }

/** Returns the field that identifies a row to users, such as its name. */
export function titleFieldOf({ fields }: Pick<Resource, 'fields'>): Field | undefined {
  const texts = fields.filter(({ schema, isListed }) => isListed && schema.type === 'string' && !schema.format)
  const best = ['name', 'title', 'reference', 'label'].find((name) => texts.some((field) => field.name === name))
  return texts.find(({ name }) => name === best) ?? texts[0]
}

/** Returns a short text that identifies a row to users. */
export function titleOf(row: Row, resource: Pick<Resource, 'fields'>): string {
  const value = row[titleFieldOf(resource)?.name ?? '']
  return typeof value === 'string' && value !== '' ? value : `#${row.id}`
}
