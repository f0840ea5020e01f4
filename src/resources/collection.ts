import type { TObject } from 'typebox'
import type { IdType } from '../storage/ids.ts'
import type { DerivedSchemas } from './computed/options.ts'
import type { GivenFields } from './constraints/creation.ts'
import type { Collection, Declaration } from './declaration.ts'
import { defineResource, type ResourceContext } from './define.ts'
import { deletedRoutes } from './deleted/routes.ts'
import { fileRoutes } from './files/file-routes.ts'
import { formFields, formRoutes } from './files/form-routes.ts'
import type { FieldOf, ResourceOptions } from './resource-options.ts'
import { nestedLists, routes } from './routes.ts'
import { servedResource } from './serve.ts'

/**
 * Declares a resource: its HTTP operations (list, create, read, replace, patch, remove), events, report and table.
 * Throws `DefinitionError`, which lists every error in the declaration.
 */
export const collection = <
  B extends TObject,
  Computed extends string = never,
  Derived extends DerivedSchemas = Record<never, never>,
  Set extends FieldOf<B> = never,
  Defaulted extends FieldOf<B> = never,
  Ids extends IdType = 'integer',
>(
  options: ResourceOptions<B, object, string, Computed, Derived, Ids> & GivenFields<Set, Defaulted>,
): Collection<B, Computed, Set | Defaulted, Extract<keyof Derived, string>, Ids> => collectionWith(options)

/** Like `collection`, for a resource with claims or with fields that not every caller can write. */
export function collectionWith<
  B extends TObject,
  Claims extends object,
  Role extends string,
  Computed extends string,
  Derived extends DerivedSchemas,
  Given extends string = string,
  DerivedField extends string = string,
  Ids extends IdType = IdType,
>(
  options: ResourceOptions<B, Claims, Role, Computed, Derived, Ids>,
  context?: ResourceContext,
): Collection<B, Computed, Given, DerivedField, Ids> {
  return collectionOf(defineResource(options, context))
}

/** Returns the collection of a validated declaration. */
export function collectionOf<
  B extends TObject,
  Computed extends string = string,
  Given extends string = string,
  Derived extends string = string,
  Ids extends IdType = IdType,
>(declaration: Declaration<B>): Collection<B, Computed, Given, Derived, Ids> {
  return Object.freeze({
    declaration,
    plugin: async (app, options) => {
      const served = servedResource(declaration, options, app.prefix)
      const own = declaration.operations.map((operation) => ({ operation, route: routes[operation](served) }))
      if (formFields(declaration).length > 0) await app.register((at) => formRoutes(at, served, own))
      else for (const { route } of own) app.route(route)
      for (const list of nestedLists(served)) app.route(list)
      for (const route of deletedRoutes(served)) app.route(route)
      if (declaration.files.length > 0) await app.register((at) => fileRoutes(at, served))
    },
  } satisfies Collection<B, Computed>)
}
