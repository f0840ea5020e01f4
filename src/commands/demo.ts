import type { Config } from '../config.ts'
export async function demo(_config: Config, _version: string): Promise<void> {}
