/**
 * What `import … from 'plinth'` gives: all that the author of a service needs, and nothing else. Whatever is not here may
 * change in any release.
 */
export { type TSchema, Type } from 'typebox'
export { books } from './catalog/books.ts'
export { products } from './catalog/products.ts'
export { users } from './catalog/users.ts'
export { type Definition, type ServiceOptions, service } from './definition/service.ts'
export type { VersionDeclaration } from './definition/version.ts'
export type { Caller } from './http/policies/authenticate.ts'
export { Line } from './http/text-rules.ts'
export type { ServiceInfo } from './openapi/info.ts'
export type { ReportColumn } from './reports/formats/format.ts'
export type { ReportFilter, ReportKind } from './reports/report-types.ts'
export { collection } from './resources/collection.ts'
export type { Collection, CollectionOperation, Link, ResourceOptions } from './resources/declaration.ts'
export { Day, Email, Instant, Name, Price, Text, Title, Url } from './resources/field-types.ts'
export { DefinitionError } from './startup-errors.ts'
export type { Row } from './storage/rows/rows.ts'
