#pragma once

int devices();
int driver();
int reduced(float* values, int count);
