// The parts of the OpenAPI document that describe resources.

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
  in: string
  description?: string
  schema: Schema
}

type Content = Record<string, { schema?: Schema }>

export interface Operation {
  operationId: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { content: Content }
  responses: Record<
    string,
    { content?: Content; links?: Record<string, { operationId: string; parameters: Record<string, string> }> }
  >
}

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

export interface Document {
  paths: Record<string, Partial<Record<Method, Operation>>>
  components: { schemas: Record<string, Schema>; parameters: Record<string, Parameter> }
}

/** Returns the schema or parameter to which a reference leads. */
export function resolved<Part extends { $ref?: string }>(document: Document, part: Part): Part {
  const { $ref } = part
  if ($ref === undefined) return part
  const [, , kind, name = ''] = $ref.split('/')
  const found = document.components[kind as 'schemas']?.[name]
  return found === undefined ? part : (found as unknown as Part)
}

/** Returns the schema of an object with the properties of its body or response. */
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

/** Returns the path of an operation. */
export const pathOf = (document: Document, operationId: string): string | undefined =>
  Object.entries(document.paths).find(([, methods]) =>
    Object.values(methods).some((operation) => operation?.operationId === operationId),
  )?.[0]

/** The scopes of a request: one of these sets suffices. An empty set means that no scope is needed. */
export type Access = readonly (readonly string[])[]

/** Returns the sets of scopes with which an operation can be called. */
export function accessOf({ security = [] }: Pick<Operation, 'security'>): Access {
  const sets = security.filter((one) => one.oauth2 !== undefined).map(({ oauth2 = [] }) => oauth2)
  return sets.length === 0 || security.some((one) => Object.keys(one).length === 0) ? [[]] : sets
}
