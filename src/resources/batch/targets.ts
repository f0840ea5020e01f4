import type { FastifyRequest } from 'fastify'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { strongTag } from '../../http/policies/conditional.ts'
import { serializerOf } from '../../http/policies/serialize.ts'
import { fromValidation } from '../../http/problems/framework-errors.ts'
import { rejectUnknownIn } from '../../http/strict-handling.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { rejectInvalidMembers } from '../constraints/body-values.ts'
import { settable } from '../constraints/creation.ts'
import type { Collection, CollectionOperation, CollectionOptions, Declaration, Served } from '../declaration.ts'
import { representation } from '../representation.ts'
import { servedResource } from '../serve.ts'
import type { Values } from '../writes/row-writes.ts'
import { type ItemMethod, itemMethods } from './schemas.ts'

const operationOf: Readonly<Record<ItemMethod, CollectionOperation>> = {
  POST: 'create',
  PUT: 'replace',
  PATCH: 'patch',
  DELETE: 'remove',
}

/** A collection that batch items can write to. */
export interface Target {
  served: Served
  /** The methods that the collection supports. */
  methods: readonly ItemMethod[]
  /** Implements `handling=strict` for a body: throws INVALID_INPUT if it has members that would be ignored. */
  rejectUnknown: (method: ItemMethod, body: Values) => void
  /** Validates a body like that of a single request, and converts its values in place. Returns the members to store. */
  validated: (method: ItemMethod, body: Values) => Values
  /** Returns a row's representation for the request's caller, and its entity tag. */
  represent: (row: Row, request: FastifyRequest) => { etag: string; body: Values }
}

/** The collections of a version that a batch can write to. */
export interface Targets {
  writable: readonly Declaration[]
  /**
   * Returns the collection with this name. A collection is prepared on first use, so that it does not delay startup.
   */
  target: (name: string) => Target
}

export function batchTargets(
  collections: readonly Collection[],
  optionsOf: (declaration: Declaration) => CollectionOptions,
  prefix: string,
): Targets {
  const writable = collections.map(({ declaration }) => declaration).filter((one) => methodsOf(one).length > 0)
  const declarations = new Map(writable.map((declaration) => [declaration.name, declaration]))
  const prepared = new Map<string, Target>()
  return {
    writable,
    target: (name) => {
      const known = prepared.get(name)
      if (known) return known
      const declaration = declarations.get(name) as Declaration
      const target = targetOf(servedResource(declaration, optionsOf(declaration), prefix))
      prepared.set(name, target)
      return target
    },
  }
}

const methodsOf = ({ operations }: Declaration): ItemMethod[] =>
  itemMethods.filter((method) => operations.includes(operationOf[method]))

function targetOf(served: Served): Target {
  const { declaration } = served
  const { creation, replacement, patchable } = declaration
  const shown = representation(declaration)
  const serialize = serializerOf(shown)
  const [checkNew, checkReplacement] = [inputValidator(creation, 'body'), inputValidator(replacement, 'body')]
  const known = {
    POST: creation,
    PUT: replacement,
    // Only the names are checked, because a patch may contain any part of a value.
    PATCH: { properties: Object.fromEntries(Object.keys(patchable.properties).map((name) => [name, {}])) },
    DELETE: {},
  }
  return {
    ...{ served, methods: methodsOf(declaration) },
    rejectUnknown: (method, body) => rejectUnknownIn(body, known[method], shown),
    validated: (method, body) => {
      // The value of a reference may be a decimal with a different scale.
      served.readDecimals?.(body)
      if (method === 'PATCH') {
        const sent = settable(declaration, body)
        rejectInvalidMembers(served, sent)
        return sent
      }
      const result = method === 'PUT' ? checkReplacement(body) : checkNew(body)
      if ('error' in result) throw fromValidation(result.error, 'body')
      return method === 'PUT' ? settable(declaration, body) : body
    },
    represent: (row, request) => {
      const versioned = served.serialize(row, request)
      return { etag: strongTag(versioned), body: JSON.parse(serialize(versioned)) as Values }
    },
  }
}
