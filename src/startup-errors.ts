/** An invalid configuration; the message explains each error. */
export class ConfigError extends Error {
  readonly exitCode = 2
}

/** An invalid definition; each line of the message gives a location, the error and a fix. */
export class DefinitionError extends Error {
  override name = 'DefinitionError'
  readonly exitCode = 2

  constructor(violations: readonly string[]) {
    super(violations.join('\n'))
  }
}
