/**
 * What `import … from 'plinth'` gives: all that the author of a service needs, and nothing else. Whatever is not here may
 * change in any release.
 */
export { type TSchema, Type } from 'typebox'
export type { Row } from './db/rows.ts'
export { type Definition, type ServiceOptions, service } from './definition.ts'
export type { Caller } from './http/identify.ts'
export type { ServiceInfo } from './http/openapi-info.ts'
export { books } from './resources/books.ts'
export { collection } from './resources/collection.ts'
export type { Collection, Link, Operation, ResourceOptions } from './resources/declaration.ts'
export { Day, Email, Instant, Name, Price, Text, Title, Url } from './resources/fields.ts'
export { products } from './resources/products.ts'
export type { ReportColumn } from './resources/reports/formats/format.ts'
export type { ReportFilter, ReportKind } from './resources/reports/kinds.ts'
export { Line } from './resources/text.ts'
export { users } from './resources/users.ts'
export { DefinitionError } from './startup-errors.ts'
export type { VersionDeclaration } from './version-declaration.ts'
