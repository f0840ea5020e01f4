import { ApiError, apiPrefix } from '../../api/client.ts'
import { request } from '../../session/network.ts'
import { type Access, accessOf } from '../records/document.ts'

interface Schema {
  type?: string | string[]
  enum?: unknown[]
  default?: unknown
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header' | 'cookie'
  description?: string
  required?: boolean
  schema?: Schema
  example?: unknown
}

interface RawOperation {
  operationId?: string
  summary?: string
  description?: string
  tags?: string[]
  parameters?: (Parameter | Reference)[]
  requestBody?: { required?: boolean; content: Record<string, { example?: unknown }> }
  security?: Record<string, string[]>[]
}

interface Reference {
  $ref: string
}

interface Server {
  url: string
}

interface Document {
  /** Paths that have no version have servers of their own. */
  paths: Record<string, Record<string, RawOperation> & { servers?: Server[] }>
  components: { parameters: Record<string, Parameter> }
}

/** An operation of the API. */
export interface Operation {
  id: string
  method: string
  /** The path with the prefix of the version. */
  path: string
  summary: string
  description: string
  tag: string
  access: Access
  parameters: readonly Parameter[]
  body: { type: string; isRequired: boolean; example: string } | null
}

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** Reads every operation of the newest version of the API, and those that have no version. */
export async function readOperations(): Promise<readonly Operation[]> {
  const [newest, whole] = await Promise.all([readDocument(`${apiPrefix}/openapi.json`), readDocument('/openapi.json')])
  return [
    ...operationsOf(newest, apiPrefix, ({ servers }) => servers === undefined),
    ...operationsOf(whole, '', ({ servers }) => servers !== undefined),
  ]
}

async function readDocument(path: string): Promise<Document> {
  const response = await request(path)
  if (!response.ok) throw new ApiError(response, {})
  return (await response.json()) as Document
}

const operationsOf = (document: Document, prefix: string, isWanted: (item: Document['paths'][string]) => boolean) =>
  Object.entries(document.paths)
    .filter(([, item]) => isWanted(item))
    .flatMap(([path, { servers: _, ...operations }]) =>
      Object.entries(operations)
        .filter(([method]) => methods.includes(method))
        .map(([method, operation]) => operationOf(document, method.toUpperCase(), prefix + path, operation)),
    )

function operationOf(document: Document, method: string, path: string, raw: RawOperation): Operation {
  const { operationId = `${method} ${path}`, summary = path, description = '', tags = [], parameters = [] } = raw
  const resolved = parameters.map((one) => ('$ref' in one ? parameterAt(document, one.$ref) : one))
  return {
    ...{ id: operationId, method, path, summary, description },
    tag: tags[0] ?? 'other',
    access: accessOf(raw),
    parameters: resolved.filter(
      (one) => one !== undefined && one.in !== 'cookie' && !/^authorization$/i.test(one.name),
    ),
    body: bodyOf(raw),
  }
}

const parameterAt = ({ components }: Document, reference: string) =>
  components.parameters[reference.split('/').at(-1) ?? ''] as Parameter

function bodyOf({ requestBody }: RawOperation): Operation['body'] {
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? []
  if (type === undefined) return null
  const { example } = content ?? {}
  const isForm = type === 'application/x-www-form-urlencoded'
  const text = isForm ? new URLSearchParams(example as Record<string, string>).toString() : jsonText(example)
  return { type, isRequired: requestBody?.required ?? false, example: text }
}

const jsonText = (example: unknown) => (example === undefined ? '' : JSON.stringify(example, null, 2))
