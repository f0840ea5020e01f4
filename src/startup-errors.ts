/** Thrown for invalid settings, all at once: each line has the name, the value and what was expected. */
export class ConfigError extends Error {
  readonly exitCode = 2
}

/** A definition that cannot be served; each line of the message has the location, the error and the fix. */
export class DefinitionError extends Error {
  override name = 'DefinitionError'
  readonly exitCode = 2

  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'))
  }
}
