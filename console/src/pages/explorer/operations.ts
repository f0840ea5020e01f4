import { apiPrefix } from '../../api/client.ts'
import {
  type Access,
  accessOf,
  type Document,
  type Parameter,
  type Operation as RawOperation,
  resolved,
} from '../../api/document.ts'

/** An operation of the API. */
export interface Operation {
  id: string
  method: string
  /** The path, including the version prefix. */
  path: string
  summary: string
  description: string
  tag: string
  access: Access
  parameters: readonly Parameter[]
  body: { type: string; isRequired: boolean; example: string } | null
}

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** Only unversioned paths have their own `servers`. */
type PathItem = Document['paths'][string] & { servers?: unknown }

/** Reads all operations of the newest API version, and all unversioned operations. */
export async function readOperations(read: (prefix?: string) => Promise<Document>): Promise<readonly Operation[]> {
  const [newest, whole] = await Promise.all([read(), read('')])
  return [
    ...operationsOf(newest, apiPrefix, ({ servers }) => servers === undefined),
    ...operationsOf(whole, '', ({ servers }) => servers !== undefined),
  ]
}

const operationsOf = (document: Document, prefix: string, isWanted: (item: PathItem) => boolean) =>
  Object.entries(document.paths)
    .filter(([, item]) => isWanted(item))
    .flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([method]) => methods.includes(method))
        .map(([method, operation]) => operationOf(document, method.toUpperCase(), prefix + path, operation)),
    )

function operationOf(document: Document, method: string, path: string, raw: RawOperation): Operation {
  const { operationId = `${method} ${path}`, summary = path, description = '', tags = [], parameters = [] } = raw
  return {
    ...{ id: operationId, method, path, summary, description },
    tag: tags[0] ?? 'other',
    access: accessOf(raw),
    parameters: parameters
      .map((one) => resolved(document, one))
      .filter((one) => one.in !== 'cookie' && !/^authorization$/i.test(one.name)),
    body: bodyOf(raw),
  }
}

function bodyOf({ requestBody }: RawOperation): Operation['body'] {
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? []
  if (type === undefined) return null
  const { example } = content ?? {}
  const isForm = type === 'application/x-www-form-urlencoded'
  const text = isForm ? new URLSearchParams(example as Record<string, string>).toString() : jsonText(example)
  return { type, isRequired: requestBody?.required ?? false, example: text }
}

const jsonText = (example: unknown) => (example === undefined ? '' : JSON.stringify(example, null, 2))
