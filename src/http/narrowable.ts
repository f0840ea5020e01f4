import { type TObject, type TProperties, type TSchemaOptions, Type } from 'typebox'

/**
 * An answer that `fields` may narrow: it is sent whatever members it has, and the OpenAPI document still tells which of
 * them a whole answer always has.
 */
export const narrowable = <P extends TProperties>(whole: TObject<P>, options: TSchemaOptions = {}) =>
  Type.Partial(whole, { ...options, whole: (whole as { required?: string[] }).required ?? [] })
