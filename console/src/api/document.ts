import { queryOptions, useQuery } from '@tanstack/react-query'
import { request } from '../session/network.ts'
import { ApiError, apiPrefix } from './client.ts'

export interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  minimum?: number
  maximum?: number
  maxLength?: number
  pattern?: string
  default?: unknown
  description?: string
  readOnly?: boolean
  writeOnly?: boolean
}

export interface Parameter {
  $ref?: string
  name: string
  in: 'path' | 'query' | 'header' | 'cookie'
  description?: string
  required?: boolean
  schema?: Schema
  example?: unknown
}

type Content = Record<string, { schema?: Schema; example?: unknown }>

export interface Operation {
  operationId: string
  summary?: string
  description?: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { required?: boolean; content: Content }
  responses: Record<
    string,
    { content?: Content; links?: Record<string, { operationId: string; parameters: Record<string, string> }> }
  >
}

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** The parts of the OpenAPI document that the pages read. */
export interface Document {
  paths: Record<string, Partial<Record<Method, Operation>>>
  components: {
    schemas: Record<string, Schema>
    parameters: Record<string, Parameter>
    securitySchemes: { oauth2: { flows: { authorizationCode: { scopes: Record<string, string> } } } }
  }
}

const documentOf = (prefix: string) =>
  queryOptions({
    queryKey: ['document', 'of', prefix],
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
    queryFn: async () => {
      const response = await request(`${prefix}/openapi.json`)
      if (!response.ok) throw new ApiError(response, {})
      return (await response.json()) as Document
    },
  })

/** Returns the OpenAPI document of an API version, by default the newest; an empty prefix selects the whole service. */
type ReadDocument = (prefix?: string) => Promise<Document>

/** Queries a value that `find` derives from OpenAPI documents. Each document is requested only once. */
export const useDocument = <Found>(name: string, find: (read: ReadDocument) => Promise<Found>) =>
  useQuery({
    queryKey: ['document', name],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ client }) => find((prefix = apiPrefix) => client.ensureQueryData(documentOf(prefix))),
  })

/** Resolves a reference to a schema or parameter; returns anything else unchanged. */
export function resolved<Part extends { $ref?: string }>(document: Document, part: Part): Part {
  const { $ref } = part
  if ($ref === undefined) return part
  const [, , kind, name = ''] = $ref.split('/')
  const found = document.components[kind as 'schemas']?.[name]
  return found === undefined ? part : (found as unknown as Part)
}

/** Returns the schema of the JSON content of a body or response; an empty schema if there is none. */
export function bodySchema(document: Document, content: Content | undefined): Schema {
  const schema = (content?.['application/merge-patch+json'] ?? content?.['application/json'])?.schema
  return schema === undefined ? {} : resolved(document, schema)
}

/** Returns the schema of the items in a list, which is an array or an object with `items`. */
export function itemSchema(document: Document, operation: Operation | undefined): Schema {
  const list = bodySchema(document, operation?.responses['200']?.content)
  const items = list.items ?? list.properties?.items?.items
  return items === undefined ? {} : resolved(document, items)
}

/** Returns true if values of the schema are numbers or decimals. Decimals are strings with a numeric pattern. */
export function hasNumbers({ type, pattern }: Schema): boolean {
  const matches = (text: string) => pattern !== undefined && new RegExp(pattern).test(text)
  return type === 'integer' || type === 'number' || (type === 'string' && matches('0.5') && !matches('a'))
}

/** Returns the path of an operation. */
export const pathOf = (document: Document, operationId: string): string | undefined =>
  Object.entries(document.paths).find(([, methods]) =>
    Object.values(methods).some((operation) => operation?.operationId === operationId),
  )?.[0]

/** Sets of scopes, each of which is sufficient for a request. An empty set means that no scope is required. */
export type Access = readonly (readonly string[])[]

/** Returns the sets of scopes that permit an operation. */
export function accessOf({ security = [] }: Pick<Operation, 'security'>): Access {
  const sets = security.filter((one) => one.oauth2 !== undefined).map(({ oauth2 = [] }) => oauth2)
  return sets.length === 0 || security.some((one) => Object.keys(one).length === 0) ? [[]] : sets
}
